"""Test the pages of people's tasks: what they show, each verb, and the rights of readers and tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

import aiohttp
import pytest
from fastapi import FastAPI

from shardclock_server.cluster.testing import SteppedCluster, cluster
from shardclock_server.gateway.console.pages.task_results import variables_in
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.bpmn import model
from tests.support.console import XSS, Browser, browsing
from tests.support.console_forms import sign_in_as
from tests.support.gateways import Api

SALES = '<extensionElements><zeebe:assignmentDefinition candidateGroups="sales"/></extensionElements>'
USER_TASK = f'<startEvent id="s"/><userTask id="u" name={quoteattr(XSS)}>{SALES}</userTask><userTask id="v"/>'
MODEL = model(USER_TASK, connected="s>u u>v")


@dataclass
class ConsoleTasks:
    """The console and the API of a gateway, and a cluster with a clock that the test moves."""

    api: Api
    browser: Browser
    cluster: SteppedCluster

    async def open(self) -> int:
        """Open a task; return its key."""
        start = {"business_key": "order-42", "variables": {"note": XSS}}
        assert (await self.api.post("/v1/processes/p/start", start)).status == 201
        await self.cluster.advance("PT0S")
        key: int = (await self.api.get("/v1/tasks")).json["tasks"][-1]["task_key"]
        return key


@pytest.fixture
async def it() -> AsyncIterator[ConsoleTasks]:
    """Open the console of a gateway; each instance of the deployed process waits for a user task."""
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        assert (await api.deploy(MODEL)).status == 201
        async with browsing(api) as browser:
            yield ConsoleTasks(api, browser, sc)


async def test_a_task_is_found_claimed_given_back_and_completed(it: ConsoleTasks) -> None:
    key = await it.open()
    for query, is_listed in (("", True), ("group=sales", True), ("group=none", False), ("business_key=order-42", True)):
        listed = await it.browser.get(f"/tasks?{query}")
        assert (f"/tasks/{key}" in listed.text) == is_listed, query
    (await it.browser.get("/tasks")).assert_escapes()
    both = await it.browser.get("/tasks?unassigned=true&instance_key=x")
    assert (both.status, "instance_key 'x'" in both.main) == (422, True)

    claimed = await it.browser.follow(await it.browser.submit(f"/tasks/{key}/claim", {"assignee": XSS}))
    claimed.assert_escapes()
    assert "ASSIGNED" in claimed.main
    taken = await it.browser.submit(f"/tasks/{key}/claim", {"assignee": "bob"})
    assert (taken.status, "<script>alert" in taken.text) == (409, False)
    await it.browser.submit(f"/tasks/{key}/unclaim")
    assert "CREATED" in (await it.browser.get(f"/tasks/{key}")).main

    wrong = await it.browser.submit(f"/tasks/{key}/complete", {"variables": "approved"})
    assert (wrong.status, "approved = true" in wrong.main) == (422, True)
    fields = {"variables": 'approved = true\nnote = "paid"', "assignee": "ann"}
    completed = await it.browser.follow(await it.browser.submit(f"/tasks/{key}/complete", fields))
    assert ("COMPLETED" in completed.main, completed.actions) == (True, [])
    assert (await it.browser.submit(f"/tasks/{key}/complete")).status == 409
    await it.cluster.advance("PT0S")
    instance_key = (await it.api.get(f"/v1/tasks/{key}")).json["instance_key"]
    variables = (await it.api.get(f"/v1/instances/{instance_key}")).json["variables"]
    assert variables == {"approved": True, "note": "paid"}
    assert (await it.browser.get("/tasks/1")).status == 404


async def test_another_tenants_task_is_not_found(it: ConsoleTasks) -> None:
    key = await it.open()
    await it.browser.submit("/tenant", {"tenant": "eve", "to": "/tasks"})

    assert f"/tasks/{key}" not in (await it.browser.get("/tasks")).text
    assert (await it.browser.get(f"/tasks/{key}")).status == 404
    for verb, fields in (("claim", {"assignee": "eve"}), ("unclaim", {}), ("complete", {})):
        assert (await it.browser.submit(f"/tasks/{key}/{verb}", fields)).status == 404, verb
    assert (await it.api.get(f"/v1/tasks/{key}")).json["state"] == "CREATED"


async def test_a_reader_may_change_no_task(locked_browser: Browser, owner: Session) -> None:
    await sign_in_as(locked_browser, owner, "read")
    assert (await locked_browser.get("/tasks")).status == 200
    for verb in ("claim", "unclaim", "complete"):
        assert (await locked_browser.submit(f"/tasks/7/{verb}", {"assignee": "ann"})).status == 403, verb


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        (None, {}),
        ("a = 1\n\nb = two words\nc = [1, 2]\nd = x=y", {"a": 1, "b": "two words", "c": [1, 2], "d": "x=y"}),
        ('{"a": {"b": null}}', {"a": {"b": None}}),
    ],
)
def test_variables_are_read_from_lines_or_json(text: str | None, variables: dict[str, object]) -> None:
    assert variables_in(text) == variables


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "= 1",
        "a =",
        "a = 1\na = 2",
        "a = True",
        "a = yes",
        "a=NaN",
        "a = -Infinity",
        "a = [1",
        "[1]",
        '{"a": 1',
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        variables_in(text)
    assert refused.value.code.name == "invalid_variables"
