"""Test user tasks over HTTP: assignment, completion, and refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
from fastapi import FastAPI

from shardclock_server.cluster.testing import SteppedCluster, cluster
from shardclock_server.gateway.routes import tasks as routes
from shardclock_server.sql.processes import tasks
from tests.support.bpmn import model
from tests.support.gateways import Api

SALES = '<extensionElements><zeebe:assignmentDefinition candidateGroups="sales"/></extensionElements>'
MODEL = model(f'<startEvent id="s"/><userTask id="u" name="Approve">{SALES}</userTask>', connected="s>u")


@dataclass
class GatewayTasks:
    """A gateway, and a cluster with a clock that the test moves."""

    api: Api
    cluster: SteppedCluster

    async def open(self) -> str:
        """Open a task; return its path."""
        await self.api.post("/v1/processes/p/start", {"business_key": "order-42"})
        await self.cluster.advance("PT0S")
        return f"/v1/tasks/{(await self.api.get('/v1/tasks')).json['tasks'][-1]['task_key']}"


@pytest.fixture
async def it() -> AsyncIterator[GatewayTasks]:
    """Serve a gateway; each instance of the deployed process waits for a user task."""
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        await api.deploy(MODEL)
        yield GatewayTasks(api, sc)


async def test_tasks_are_listed_by_person_and_all_groups_in_one_request(it: GatewayTasks) -> None:
    task = await it.open()
    for query, is_listed in (
        ("for_user=ann&group=none&group=sales", True),
        ("group=none&group=sales", True),
        ("for_user=ann&group=none", False),
        ("business_key=order-42", True),
        ("business_key=order-43", False),
    ):
        listed = (await it.api.get(f"/v1/tasks?{query}")).json
        assert [f"/v1/tasks/{one['task_key']}" for one in listed["tasks"]] == is_listed * [task], query
        assert listed["next"] is None
    assert (await it.api.get(task)).json["business_key"] == "order-42"
    await it.api.post(f"{task}/claim", {"assignee": "ann"})
    (own,) = (await it.api.get("/v1/tasks?for_user=ann")).json["tasks"]
    assert (own["assignee"], own["business_key"]) == ("ann", "order-42")
    refused = await it.api.get("/v1/tasks?for_user=ann&assignee=bob")
    refused.assert_problem("refused", 422, "assignee 'bob' and for_user exclude each other; give one of the two")
    assert (await it.api.get("/v1/tasks?" + 101 * "group=g&")).status == 422


async def test_a_page_that_ends_early_has_a_link_to_the_next_page(
    it: GatewayTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "STEP_ROWS", 1)
    monkeypatch.setattr(routes, "SEARCH_S", 0.0)
    first, _ = await it.open(), await it.open()
    page = (await it.api.get("/v1/tasks?user=nobody")).json
    assert (page["tasks"], f"/v1/tasks/{page['next']}") == ([], first)


async def test_a_claim_without_an_assignee_is_refused_and_changes_nothing(it: GatewayTasks) -> None:
    task = await it.open()
    await it.api.post(f"{task}/claim", {"assignee": "ann"})

    (await it.api.post(f"{task}/claim", {})).assert_problem("refused", 422, "assignee is missing; give it")
    (await it.api.ask("POST", f"{task}/claim")).assert_problem("refused", 422, "assignee is missing; give it")
    assert (await it.api.post(f"{task}/claim", {"assignee": None})).status == 422
    assert (await it.api.get(task)).json["assignee"] == "ann"

    given_back = (await it.api.ask("POST", f"{task}/unclaim")).json
    found = (await it.api.get(task)).json
    assert (found["state"], found["assignee"]) == (given_back["state"], None) == ("CREATED", None)


async def test_a_refused_claim_names_the_present_assignee(it: GatewayTasks) -> None:
    task = await it.open()
    await it.api.post(f"{task}/claim", {"assignee": "ann"})

    for asked in ("claim", "complete"):
        taken = await it.api.post(f"{task}/{asked}", {"assignee": "bob"})
        taken.assert_problem("task_assigned", 409)
        assert (taken.json["state"], taken.json["assignee"]) == ("TAKEN", "ann")
    assert (await it.api.post(f"{task}/complete", {"assignee": ""})).status == 422
    assert (await it.api.post(f"{task}/complete", {"assignee": "ann"})).json["state"] == "COMPLETED"


async def test_changes_of_an_ended_task_are_refused_with_its_end(it: GatewayTasks) -> None:
    task = await it.open()
    await it.api.post(f"{task}/complete", {})
    await it.cluster.advance("PT0S")
    canceled = await it.open()
    instance = (await it.api.get(canceled)).json["instance_key"]
    await it.api.post(f"/v1/instances/{instance}/cancel", {})
    await it.cluster.advance("PT0S")

    for path, state, code in (
        (task, "COMPLETED_BEFORE", "task_completed"),
        (canceled, "CANCELED", "task_canceled"),
    ):
        for verb, body in (("claim", {"assignee": "ann"}), ("unclaim", {}), ("complete", {"assignee": "ann"})):
            refused = await it.api.post(f"{path}/{verb}", body)
            refused.assert_problem(code, 409)
            assert refused.json["state"] == state
