"""Test incidents over HTTP: listed with sentences, and resolved by a filter; and idempotency keys of processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from fastapi import FastAPI

from shardclock_server.cluster.testing import SteppedCluster, cluster
from tests.support.bpmn import model
from tests.support.bpmn_cluster import APP
from tests.support.factories import query
from tests.support.gateways import Api

CHARGE = (
    '<startEvent id="s"/><serviceTask id="charge"><extensionElements><zeebe:taskDefinition type="charge"/>'
    "</extensionElements></serviceTask>"
)


@pytest.fixture
async def served() -> AsyncIterator[tuple[SteppedCluster, Api]]:
    """Run a cluster with a clock that the test moves, and processes `p` and `q` that charge a card."""
    async with cluster(APP) as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        for process_id in ("p", "q"):
            text = model(CHARGE, connected="s>charge", process_id=process_id)
            assert (await api.deploy(text)).status == 201
        yield sc, api


async def start(api: Api, process_id: str, **variables: object) -> int:
    started = await api.post(f"/v1/processes/{process_id}/start", {"variables": variables})
    key: int = started.json["instance_key"]
    return key


async def test_incidents_are_listed_with_their_sentences_and_resolved_by_a_filter(
    served: tuple[SteppedCluster, Api],
) -> None:
    sc, api = served
    first, second, other = [await start(api, which, fails=True) for which in ("p", "p", "q")]
    thrown = await start(api, "p", throws="E9")
    await sc.advance("PT0S")

    listed = (await api.get("/v1/incidents?process_id=p")).json["incidents"]
    assert {(one["instance_key"], one["node_id"]) for one in listed} == {
        (key, "charge") for key in (thrown, second, first)
    }
    of = {one["instance_key"]: one["sentence"] for one in listed}
    assert (of[first], of[second]) == ("the card is expired", "the card is expired")
    assert "E9" in of[thrown]
    assert len((await api.get("/v1/incidents?containing=EXPIRED")).json["incidents"]) == 3
    assert (await api.with_headers(Shardclock_Tenant="other").get("/v1/incidents")).json == {"incidents": []}

    chosen = {"process_id": "p", "containing": "card is expired"}
    would = (await api.post("/v1/incidents/resolve?dry_run=true", chosen)).json
    assert would["message"] == "2 incidents would be resolved, at charge; nothing was changed"
    assert sorted(one["instance_key"] for one in would["tokens"]) == [first, second]
    await sc.advance("PT0S")
    assert len((await api.get("/v1/incidents")).json["incidents"]) == 4

    for key in (first, second, other):
        await api.post(f"/v1/instances/{key}/variables", {"variables": {"fails": False}})
    some = (await api.post("/v1/incidents/resolve", {**chosen, "limit": 1})).json
    assert (len(some["tokens"]), some["more"]) == (1, True)
    await sc.advance("PT0S")
    rest = (await api.post("/v1/incidents/resolve", {"containing": "expired"})).json
    assert (rest["message"], rest["more"]) == ("2 incidents resolved", False)
    await sc.advance("PT0S")
    states = [(await api.get(f"/v1/instances/{key}")).json["state"] for key in (first, second, other, thrown)]
    assert states == ["COMPLETED"] * 3 + ["RUNNING"]
    (left,) = (await api.get("/v1/incidents")).json["incidents"]
    assert left["instance_key"] == thrown


async def test_a_bulk_resolve_lists_an_incident_that_is_a_dead_letter_and_does_not_resolve_it(
    served: tuple[SteppedCluster, Api],
) -> None:
    sc, api = served
    key = await start(api, "p", fails=True)
    await sc.advance("PT0S")
    await query(sc.dsn, "select shardclock.send_signal($1, 'default', $2, 1)", key, '{"kind": "failed"}')
    await sc.advance("PT1M")
    listed = (await api.get("/v1/incidents")).json["incidents"]
    assert sorted(bool(one["signal_key"]) for one in listed) == [False, True]
    forgotten = await api.post("/v1/incidents/resolve", {})
    forgotten.assert_problem(
        "refused",
        422,
        'the request does not select any incidents; give process_id, version or containing, or "every": true',
    )
    done = (await api.post("/v1/incidents/resolve", {"every": True})).json
    assert [one["instance_key"] for one in done["tokens"]] == [key]
    assert done["message"] == "1 incident resolved"


async def test_each_change_of_a_process_is_done_once_for_each_idempotency_key(
    served: tuple[SteppedCluster, Api],
) -> None:
    sc, api = served

    async def twice(path: str, body: dict[str, object], key: str) -> tuple[object, object]:
        one, two = [await api.post(path, body, Idempotency_Key=key) for _ in range(2)]
        assert one.status == two.status < 300
        assert "Idempotency-Replayed" not in one.headers
        assert two.headers["Idempotency-Replayed"] == "true"
        return one.json, two.json

    one, two = await twice("/v1/processes/p/start", {"variables": {"fails": True}}, "start-1")
    assert one == two
    assert isinstance(one, dict)
    (await api.post("/v1/processes/q/start", {}, Idempotency_Key="start-1")).assert_problem("other_request", 422)
    await sc.advance("PT0S")
    assert len((await api.get("/v1/instances")).json["instances"]) == 1
    key = one["instance_key"]
    await twice(f"/v1/instances/{key}/variables", {"variables": {"fails": False}}, "set-1")
    every: dict[str, object] = {"every": True}
    await api.post("/v1/incidents/resolve?dry_run=true", every, Idempotency_Key="resolve-1")
    await twice("/v1/incidents/resolve", every, "resolve-1")
    signals = await query(sc.dsn, "select payload ->> 'kind' as kind from shardclock.deliveries order by timer_key")
    assert [row["kind"] for row in signals] == ["variables", "retried"]
    await sc.advance("PT0S")
    assert (await api.get(f"/v1/instances/{key}")).json["state"] == "COMPLETED"
    for state in ("COMPLETED", "completed", "Ended"):
        assert len((await api.get(f"/v1/instances?state={state}")).json["instances"]) == 1
    assert (await api.get("/v1/instances?state=running")).json["instances"] == []
    (await api.get("/v1/instances?state=lost")).assert_problem("refused", 422, "state", "COMPLETED")
    # A refused request is evaluated again, and an unsupported header is refused.
    for _ in range(2):
        (await api.post(f"/v1/instances/{key}/cancel", {}, Idempotency_Key="c")).assert_problem("conflict", 409)
    (await api.post(f"/v1/instances/{key}/cancel", {}, If_Match="x")).assert_problem("refused", 422, "If-Match")


async def test_a_repeated_start_waits_for_the_same_instance(served: tuple[SteppedCluster, Api]) -> None:
    sc, api = served
    first = await api.post("/v1/processes/p/start", {}, Idempotency_Key="k")
    assert first.json["state"] == "STARTING"
    await sc.advance("PT0S")
    again = await api.post("/v1/processes/p/start?wait=PT1S", {}, Idempotency_Key="k")
    assert [it.headers.get("Idempotency-Replayed") for it in (first, again)] == [None, "true"]
    assert (again.status, again.json["instance_key"]) == (201, first.json["instance_key"])
    assert again.json["state"] == "COMPLETED"
