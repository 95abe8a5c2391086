"""Test processes over HTTP: deploy, start, wait, tasks, messages; and refusals."""

from __future__ import annotations

import aiohttp
from fastapi import FastAPI

from shardclock_server.cluster.testing import cluster
from tests.support import ROOT
from tests.support.bpmn import SHARED, model
from tests.support.gateways import Api

MODEL = (ROOT / "examples" / "order.bpmn").read_bytes()
XML = {"Content-Type": "application/xml"}
CATCH = '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'


async def test_a_process_is_deployed_started_and_driven(api: Api) -> None:
    first = await api.ask_raw("POST", "/v1/processes?resource=order.bpmn", MODEL, XML)
    again = await api.ask_raw("POST", "/v1/processes?resource=order.bpmn", MODEL, XML)
    assert (first.status, again.status) == (201, 201)
    assert [one.json["processes"][0]["is_new"] for one in (first, again)] == [True, False]
    (listed,) = (await api.get("/v1/processes")).json["processes"]
    assert (listed["process_id"], listed["version"], listed["running"]) == ("order", 1, 0)

    started = await api.post("/v1/processes/order/start", {"variables": {"order": 42}})
    assert started.status == 201
    assert started.json["state"] == "STARTING"  # the state is STARTING, because no engine runs
    key = started.json["instance_key"]
    assert (await api.get(f"/v1/instances/{key}")).json["process_id"] == "order"
    assert (await api.post(f"/v1/instances/{key}/cancel", {})).status == 202
    assert (await api.post("/v1/instances/7/cancel", {})).status == 404
    assert (await api.get("/v1/instances/7")).status == 404


async def test_after_the_deletion_of_a_version_the_previous_version_is_the_newest(api: Api) -> None:
    first = await api.deploy(model('<startEvent id="s"/>'))
    second = await api.deploy(model('<startEvent id="t"/>'))
    key = second.json["processes"][0]["definition_key"]
    other = api.with_headers(Shardclock_Tenant="other")
    (await other.ask("DELETE", f"/v1/processes/{key}")).assert_problem("not_found", 404, f"definition {key}")

    deleted = await api.ask("DELETE", f"/v1/processes/{key}", Idempotency_Key="once")
    again = await api.ask("DELETE", f"/v1/processes/{key}", Idempotency_Key="once")

    assert (deleted.status, deleted.json) == (again.status, again.json) == (200, {"definition_key": key})
    (await api.ask("DELETE", f"/v1/processes/{key}")).assert_problem("not_found", 404, f"definition {key}")
    (newest,) = (await api.get("/v1/processes")).json["processes"]
    assert newest["definition_key"] == first.json["processes"][0]["definition_key"]


async def test_a_deployed_model_can_be_read_unchanged_even_after_its_deletion(api: Api) -> None:
    deployed = await api.deploy(MODEL)
    (process,) = deployed.json["processes"]
    path = f"/v1/processes/{process['definition_key']}/model"
    assert process["undeclared"] == ["order.charge"]
    for _ in range(2):
        found = await api.get(path)
        assert (found.status, found.headers["Content-Type"], found.body) == (200, "application/xml", MODEL)
        assert found.headers["Content-Disposition"] == "attachment", "no page of the gateway's"
        await api.ask("DELETE", f"/v1/processes/{process['definition_key']}")
    for asking, where in ((api.with_headers(Shardclock_Tenant="other"), path), (api, "/v1/processes/7/model")):
        (await asking.get(where)).assert_problem("not_found", 404, "is unknown: ")


async def test_a_tenant_sees_only_its_own_processes(api: Api) -> None:
    await api.deploy(MODEL)
    key = (await api.post("/v1/processes/order/start", {})).json["instance_key"]
    other = api.with_headers(Shardclock_Tenant="other")
    assert (await other.get("/v1/processes")).json == {"processes": []}
    assert (await other.get(f"/v1/instances/{key}")).status == 404
    assert (await other.post(f"/v1/instances/{key}/cancel", {})).status == 404
    assert (await other.post("/v1/processes/order/start", {})).status == 404


async def test_invalid_requests_about_processes_are_refused_in_a_sentence(api: Api) -> None:
    bad = await api.deploy(model('<startEvent id="s"/><transaction id="t"/>'))
    assert bad.status == 422
    assert bad.json["detail"].startswith("t: ")
    unknown = await api.post("/v1/processes/none/start", {})
    assert (unknown.status, unknown.json["detail"]) == (
        404,
        "process 'none' is unknown: none is deployed (shardclock deploy)",
    )
    wrong = await api.post("/v1/processes/none/start", {"variables": []})
    assert wrong.status == 422
    assert (await api.post("/v1/tasks/7/complete", {})).status == 404


async def test_a_caller_waits_for_the_end_and_a_task_is_completed() -> None:
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        catching = model(
            f'<startEvent id="s"/><userTask id="u"/>{CATCH}', connected="s>u u>c", beside=SHARED, process_id="p"
        )
        await api.deploy(catching)
        key = (await api.post("/v1/processes/p/start?wait=PT0S", {"variables": {"order": "42"}})).json["instance_key"]
        await sc.advance("PT0S")
        (task,) = (await api.get("/v1/tasks")).json["tasks"]
        assert (await api.post(f"/v1/tasks/{task['task_key']}/claim", {"assignee": "ann"})).json["state"] == "ASSIGNED"
        assert (await api.post(f"/v1/tasks/{task['task_key']}/claim", {"assignee": "bob"})).status == 409
        assert (await api.post(f"/v1/tasks/{task['task_key']}/claim", {"assignee": ""})).status == 422
        opened = (await api.get(f"/v1/tasks/{task['task_key']}")).json
        assert (opened["state"], opened["variables"], opened["candidate_groups"]) == ("ASSIGNED", {"order": "42"}, [])
        other = api.with_headers(Shardclock_Tenant="other")
        (await other.get(f"/v1/tasks/{task['task_key']}")).assert_problem("not_found", 404, "is unknown")
        assert (await api.post(f"/v1/tasks/{task['task_key']}/complete", {})).json["state"] == "COMPLETED"
        for _ in ("before an engine has taken it", "after"):
            again = await api.post(f"/v1/tasks/{task['task_key']}/complete", {})
            again.assert_problem("conflict", 409, "was completed already")
            assert again.json["state"] == "COMPLETED_BEFORE"
            await sc.advance("PT0S")
        done = (await api.get(f"/v1/tasks/{task['task_key']}")).json
        assert (done["state"], done["variables"], done["assignee"]) == ("COMPLETED", None, "ann")
        assert [act["act"] for act in done["acts"]] == ["CREATED", "ASSIGNED", "COMPLETED"]
        shown = (await api.get(f"/v1/instances/{key}")).json
        assert (shown["state"], shown["variables"]) == ("RUNNING", {"order": "42"})
        assert [it["name"] for it in shown["subscriptions"]] == ["paid"]
        told = await api.post("/v1/messages", {"name": "paid", "correlation": "42", "variables": {"amount": 10}})
        assert told.json == {"instance_keys": [key]}
        await sc.advance("PT0S")
        late = await api.post(f"/v1/instances/{key}/cancel", {})
        late.assert_problem("instance_ended", 409)
        ended = (await api.get(f"/v1/instances/{key}?wait=PT5S")).json
        assert (ended["state"], ended["result"]) == ("COMPLETED", {"order": "42", "amount": 10})
        steps = (await api.get(f"/v1/instances/{key}/steps")).json["steps"]
        assert [said["kind"] for step in steps for said in step["signals"]] == ["begin", "completed", "happened"]


async def test_an_unknown_field_is_refused_with_the_names_of_the_known_fields(api: Api) -> None:
    moved = await api.post("/v1/instances/7/move", {"end": [3]})
    moved.assert_problem("refused", 422, "'end' is not a field here; the fields are terminated, begun")
    listed = await api.get("/v1/tasks?colour=red")
    listed.assert_problem("refused", 422, "query parameter 'colour' is not known here: it takes after, assignee")


async def test_a_refusal_shows_a_body_that_is_not_an_object_as_it_was_sent(api: Api) -> None:
    started = await api.post("/v1/processes/none/start", [1])
    started.assert_problem("refused", 422, "the body '[1]' is not a JSON object; send an object with names and values")
    scheduled = await api.post("/v1/timers", [1])
    scheduled.assert_problem(
        "refused", 422, """the body '[1]' is not a JSON object; send an object such as {"delay":"PT15M"}"""
    )
