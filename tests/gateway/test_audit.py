"""Test that each change by an operator leaves one audit record, on each route, and that no record has a secret."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from unittest import mock
from urllib.parse import urlencode

import pytest

from shardclock_server.gateway import access
from shardclock_server.gateway.requests import recording
from shardclock_server.gateway.requests.recording import UNRECORDED, verb_of
from shardclock_server.service import keys as use_cases
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import query, value
from tests.support.gateways import Api, canceled

HOUR = {"delay": "PT1H"}
URL = "https://billing.example.com/hooks?token=hunter2"
MODEL = b"""<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"><process id="hello" isExecutable="true">
<startEvent id="start"/></process></definitions>"""
# Clients use these routes, too; only an operator's request is recorded.
OF_INSTANCES = {
    "/v1/instances/cancel", "/v1/instances/{instance_key}/cancel", "/v1/instances/{instance_key}/variables",
}  # fmt: skip
GROUPS_MOVED = "shardclock.consumers where position > 0"
SECRET = "whsec_" + "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg=="


async def audited(dsn: str) -> list[dict[str, Any]]:
    """Read the audit records, the oldest first."""
    rows = await query(dsn, "select * from shardclock.audit order by act_id")
    return [{**dict(row), "parameters": json.loads(row["parameters"])} for row in rows]


async def bearer(owner: Session, tenant: str | None, scope: str) -> dict[str, str]:
    """Make a key with a scope, and return its header."""
    made = await use_cases.make(owner, WantedKey(tenant, scope, (scope,)))
    return {"Authorization": f"Bearer {made.text}"}


async def operations(api: Api) -> list[tuple[str, str]]:
    """List the reference's operations that may change something, each with its method and path."""
    paths = (await api.get("/openapi.json")).json["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods if method != "get"]


def filled(path: str) -> str:
    """Fill in the parameters of a path."""
    path = (
        path.replace("{timer_key}", "7")
        .replace("{instance_key}", "7")
        .replace("{operation_id}", "7")
        .replace("{group}", "n")
    )
    return path.replace("{name}", "n").replace("{tenant}", "n")


async def test_each_operators_route_and_each_bulk_change_leaves_an_audit_record(
    dsn: str, locked: Api, owner: Session
) -> None:
    writer, admin = await bearer(owner, None, "write"), await bearer(owner, None, "admin")
    left: dict[str, int] = {}
    for method, path in await operations(locked):
        is_operators = (await locked.ask(method, filled(path), {}, **writer)).status == 403
        before = len(await audited(dsn))
        await locked.ask(method, filled(path), {}, **admin)
        left[f"{method} {path}"] = len(await audited(dsn)) - before
        expected = is_operators or path.startswith(("/v1/timers/bulk/", "/v1/operations/")) or path in OF_INSTANCES
        assert left[f"{method} {path}"] == int(expected and verb_of(method, path) not in UNRECORDED), (method, path)
    assert sum(left.values()) > 25
    assert {act["key_name"] for act in await audited(dsn)} == {"admin"} | {"write"}


async def test_a_record_has_the_caller_the_verb_the_address_and_the_outcome(
    dsn: str, locked: Api, owner: Session
) -> None:
    key = await bearer(owner, None, "admin")
    acme = {"Shardclock_Tenant": "acme", **key}

    await locked.put("/v1/tenants/a%2Fb", {"timers_max": 5}, **key)
    await locked.post("/v1/endpoints/billing/disable?force=true", {"reason": "gone"}, **acme)

    limits, disabled = await audited(dsn)
    prefix = key["Authorization"].split("_")[1]
    assert (limits["key_prefix"], limits["key_name"], limits["address"]) == (prefix, "admin", "127.0.0.1")
    assert (limits["role"], limits["interface"]) == ("test_gateway", "api")
    assert (limits["verb"], limits["tenant_id"], limits["outcome"]) == ("tenants set", "a/b", "done")
    changes = limits["parameters"].pop("changes")
    assert limits["parameters"] == {"tenant": "a/b", "timers_max": 5}
    assert changes[:2] == ["timers_max the gateways' setting → 5", "payload_bytes_max the gateways' setting → no limit"]
    assert (disabled["verb"], disabled["tenant_id"], disabled["outcome"]) == ("endpoints disable", "acme", "not done")
    assert disabled["parameters"] == {"name": "billing", "force": "true", "reason": "gone"}


async def test_no_secret_is_recorded(dsn: str, api: Api) -> None:
    added = await api.post(
        "/v1/endpoints",
        {
            "name": "billing",
            "url": URL,
            "secret": SECRET,
            "headers": {"x-token": "hunter2"},
            "policy": {"timeout_s": 5},
        },
    )
    assert added.status == 201
    await api.patch("/v1/endpoints/billing", {"url": URL, "headers": {"x-token": "hunter2"}})
    await api.put("/v1/jobs/refresh/config", {"config": {"password": "hunter2"}})
    await api.post("/v1/jobs/refresh/run", {"config": "hunter2"})

    acts = await audited(dsn)
    assert [act["verb"] for act in acts] == ["endpoints add", "endpoints change", "jobs configure", "jobs run"]
    assert acts[0]["parameters"] == {
        "name": "billing",
        "url": "…",
        "secret": "…",
        "headers": "…",
        "policy": {"timeout_s": 5},
    }
    assert "hunter2" not in json.dumps(acts, default=str)
    assert SECRET not in json.dumps(acts, default=str)


async def test_reads_writes_and_refused_callers_leave_no_record(dsn: str, locked: Api, owner: Session) -> None:
    admin, writer = await bearer(owner, None, "admin"), await bearer(owner, "acme", "write")

    for path in ("/v1/tenants", "/v1/audit", "/v1/jobs", "/v1/cluster", "/v1/endpoints"):
        assert (await locked.get(path, **admin)).status == 200
    await locked.post("/v1/timers", {**HOUR, "name": "n"}, **writer)
    await locked.post("/v1/timers/by-name/n/cancel", **writer)
    (await locked.put("/v1/tenants/acme", {}, **writer)).assert_problem("not_allowed", 403)
    (await locked.put("/v1/tenants/acme", {})).assert_problem("no_key", 401)

    assert await audited(dsn) == []


async def test_an_operators_change_of_variables_is_recorded_without_their_values(
    dsn: str, locked: Api, owner: Session
) -> None:
    for tenant, scope in ((None, "write"), ("acme", "operate"), (None, "operate")):
        key = await bearer(owner, tenant, scope)
        await locked.post("/v1/instances/7/variables", {"variables": {"card": "hunter2"}, "token": 2}, **key)

    (act,) = await audited(dsn)
    assert (act["verb"], act["outcome"], act["key_name"]) == ("processes set", "not done", "operate")
    assert act["parameters"] == {"instance_key": 7, "token": 2, "variables": "…"}


async def test_a_tenants_key_leaves_records_of_its_tenant(dsn: str, locked: Api, owner: Session) -> None:
    key = await bearer(owner, "acme", "operate")

    await locked.post("/v1/dead-letters/discard", {"every": True, "reason": "old"}, **key)

    (act,) = await audited(dsn)
    assert (act["verb"], act["tenant_id"], act["key_name"]) == ("dead-letters discard", "acme", "operate")


async def test_a_bulk_change_that_can_not_be_recorded_is_answered_503(dsn: str, api: Api) -> None:
    await api.post("/v1/timers", HOUR)
    token = (await api.post("/v1/timers/bulk/cancel?dry_run=true")).json["token"]
    with mock.patch.object(recording, "record_act", side_effect=StoreUnavailable("no answer")):
        done = await api.post(f"/v1/timers/bulk/cancel?token={token}")
        done.assert_problem("unavailable", 503, "the change is made, but not in the audit (no answer)")
        refused = await api.ask("DELETE", "/v1/tenants/nobody")
        refused.assert_problem("not_found", 404)
    assert await value(dsn, "select count(*) from shardclock.timers") == 0


@dataclass(frozen=True)
class OperatorChange:
    """One change by an operator: the request, the verb, and a table in which the change inserts one row."""

    asked: tuple[str, str, object]
    name: str
    counted: str


VERBS = (
    OperatorChange(("PUT", "/v1/tenants/acme", {"timers_max": 5}), "tenants set", "shardclock.tenants"),
    OperatorChange(
        ("POST", "/v1/endpoints", {"name": "b", "url": "https://b.example.com"}),
        "endpoints add",
        "shardclock.endpoints",
    ),
    OperatorChange(("POST", "/v1/processes", MODEL), "deploy", "shardclock.definitions"),
    OperatorChange(("POST", "/v1/consumers/readers/seek", {"to": "end"}), "consumers reset", GROUPS_MOVED),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("verb", VERBS, ids=[it.name for it in VERBS])
async def test_a_change_and_its_record_are_both_stored_or_neither_whenever_the_gateway_dies(
    dsn: str, api: Api, verb: OperatorChange
) -> None:
    await canceled(api, "n")
    await api.post("/v1/consumers/readers/lease")
    form = {"Content_Type": "application/xml"} if isinstance(verb.asked[2], bytes) else {}
    effects = f"select count(*) from {verb.counted}"

    with mock.patch.object(access, "record_act", side_effect=StoreUnavailable("it died after the effect")):
        (await api.ask(*verb.asked, **form)).assert_problem("unavailable", 503)
    assert await value(dsn, effects) == 0
    before = len(await audited(dsn))
    with mock.patch.object(recording, "_end_record", side_effect=RuntimeError("it died before the answer")):
        assert (await api.ask(*verb.asked, **form)).status == 500
    assert await value(dsn, effects) == 1
    assert [(act["verb"], act["outcome"]) for act in (await audited(dsn))[before:]] == [(verb.name, "done")]


async def test_a_change_that_is_refused_after_its_start_is_recorded_as_not_done(dsn: str, api: Api) -> None:
    for path in ("consumers/nobody/seek", "jobs/nobody/run", "instances/7/resolve", "dead-letters/7/redrive"):
        body = {"to": "end"} if "seek" in path else {"token": 1} if "resolve" in path else {}
        (await api.post(f"/v1/{path}", body)).assert_problem("not_found", 404)

    assert [act["outcome"] for act in await audited(dsn)] == ["not done"] * 4


async def test_the_record_of_a_tenants_limits_has_the_old_and_the_new_values(dsn: str, api: Api) -> None:
    for limits in (
        {"timers_max": 5_000},
        {"timers_max": 800, "schedules_max": 3},
        {"timers_max": 800, "schedules_max": 3},
    ):
        assert (await api.put("/v1/tenants/acme", limits)).status == 200
    (await api.put("/v1/tenants/acme", {"timers_max": -1})).assert_problem("refused", 422)

    acts = await audited(dsn)
    assert {act["tenant_id"] for act in acts} == {"acme"}
    assert [act["parameters"].get("changes") for act in acts[1:]] == [
        ["timers_max 5,000 → 800", "schedules_max default → 3"], ["no change"], None,
    ]  # fmt: skip


@pytest.mark.exhaustive
async def test_a_change_that_fails_is_recorded_as_failed(dsn: str, api: Api) -> None:
    for error in (StoreUnavailable("no answer"), RuntimeError("a fault of ours")):
        with mock.patch("shardclock_server.gateway.routes.tenants.use_cases.set_own", side_effect=error):
            assert (await api.put("/v1/tenants/acme", {"timers_max": 5})).status in (500, 503)
    assert [act["outcome"] for act in await audited(dsn)] == ["failed", "failed"]


async def test_the_audit_is_read_by_verb_by_actor_since_a_moment_and_page_by_page(locked: Api, owner: Session) -> None:
    key = await bearer(owner, None, "admin")
    for tenant in ("one", "two"):
        await locked.put(f"/v1/tenants/{tenant}", {"timers_max": 1}, **key)
    await locked.ask("DELETE", "/v1/tenants/one", **key)

    async def verbs(**filters: str) -> list[str]:
        return [it["verb"] for it in (await locked.get(f"/v1/audit?{urlencode(filters)}", **key)).json["acts"]]

    prefix = key["Authorization"].split("_")[1]
    assert await verbs(verb="tenants set") == 2 * ["tenants set"]
    assert await verbs(verb="tenants") == await verbs(actor="admin") == await verbs(actor=prefix)
    assert await verbs(actor="test_gateway") == ["tenants remove", "tenants set", "tenants set"]
    assert await verbs(verb="tenant") == await verbs(actor="ann") == []
    first = (await locked.get("/v1/audit?limit=2", **key)).json
    assert first["acts"][0]["parameters"]["changes"][0] == "timers_max 1 → the gateways' setting"
    rest = (await locked.get(f"/v1/audit?limit=2&after={first['next']}", **key)).json
    assert [it["parameters"]["tenant"] for it in first["acts"] + rest["acts"]] == ["one", "two", "one"]
    assert rest["next"] is None
    assert await verbs(since=first["acts"][1]["recorded_at"]) == ["tenants remove", "tenants set"]
    (await locked.get("/v1/audit?after=7", **key)).assert_problem("refused", 422, "'7' is not the `next` of a page")
    (await locked.get("/v1/audit?since=soon", **key)).assert_problem("refused", 422, "since 'soon'")


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("POST", "/v1/endpoints", "endpoints add"),
        ("PATCH", "/v1/endpoints/{name}", "endpoints change"),
        ("POST", "/v1/dead-letters/{timer_key}/redrive", "dead-letters redrive"),
        ("PUT", "/v1/tenants/{tenant}", "tenants set"),
        ("DELETE", "/v1/consumers/{group}", "consumers drop"),
        ("PUT", "/v1/jobs/{name}/config", "jobs configure"),
        ("POST", "/v1/timers/bulk/shift", "reschedule"),
    ],
)
def test_a_verb_in_the_audit_has_its_name_on_the_command_line(method: str, path: str, verb: str) -> None:
    assert verb_of(method, path) == verb


async def test_a_repeated_request_is_recorded_once(dsn: str, locked: Api, owner: Session) -> None:
    headers = {"Content-Type": "application/xml", "Idempotency-Key": "one", **await bearer(owner, "default", "operate")}
    answers = [await locked.ask_raw("POST", "/v1/processes?resource=hello.bpmn", MODEL, headers) for _ in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 201]
    acts = [(act["verb"], act["outcome"]) for act in await audited(dsn) if act["verb"] == "deploy"]
    assert acts == [("deploy", "done")]
