"""Prove that an instance's history tells who did what to it, and why its tokens stopped."""

from __future__ import annotations

from typing import Any

from shardclock_server.sql.processes import instances, tasks
from tests.support.bpmn_cluster import Processes, running

START, END, USER = '<startEvent id="s"/>', '<endEvent id="e"/>', '<userTask id="u"/>'
GATEWAY = '<exclusiveGateway id="g"/>'


async def told(it: Processes, key: int) -> list[dict[str, Any]]:
    """List what came, without keys."""
    steps = await instances.steps_of(it.session, key)
    return [{name: value for name, value in said.items() if name != "key"} for step in steps for said in step.signals]


async def test_it_tells_who_set_variables_and_which() -> None:
    async with running() as it:
        await it.deploy(START + USER + END, connected="s>u u>e")
        key = await it.start(order=42)
        assert await instances.set_variables(it.session, key, {"paid": True, "amount": 5})
        await it.settle()

        begun, was_set = await told(it, key)

    assert begun["variables"] == ["order"]
    assert was_set | {"by": "postgres", "variables": ["amount", "paid"]} == was_set


async def test_it_tells_which_person_completed_a_task_and_who_cancelled_the_instance() -> None:
    async with running() as it:
        await it.deploy(START + USER + '<userTask id="v"/>' + END, connected="s>u u>v v>e")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        await tasks.claim_task(it.session, task.task_key, assignee="ann")
        await tasks.complete_task(it.session, task.task_key, variables={})
        await it.settle()
        await it.query("select shardclock.cancel_instance($1)", key)
        await it.settle()

        assert [(said["kind"], said.get("by")) for said in await told(it, key)] == [
            ("begin", None),
            ("completed", "ann"),
            ("cancel", "postgres"),
        ]
        (act,) = await it.query(
            "select who, detail ->> 'assignee' as person from shardclock.task_acts where act = 'COMPLETED'"
        )
    assert act == {"who": "postgres", "person": "ann"}


async def test_it_tells_by_which_api_key_something_was_done() -> None:
    async with running() as it:
        await it.deploy(START + USER + END, connected="s>u u>e")
        key = await it.start()
        it.session.serve(frozenset({"default"}), "ab12cd34")
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await it.settle()
        _, cancelled = await told(it, key)
    assert (cancelled["by"], cancelled["key_prefix"]) == ("postgres", "ab12cd34")


async def test_why_a_token_stopped_is_told_when_its_incident_is_resolved() -> None:
    async with running() as it:
        await it.deploy(START + GATEWAY + END, connected="s>g g>e[ok]")
        key = await it.start()
        (incident,) = (await it.see(key)).waits["incident_list"]
        await instances.set_variables(it.session, key, {"ok": True})
        await instances.resolve_incident(it.session, key, incident["token"])
        await it.settle()

        assert await it.state(key) == "COMPLETED"
        (stopped,) = [said for said in await told(it, key) if said["kind"] == "incident"]
        assert stopped == {
            "kind": "incident", "token": incident["token"], "node": "g", "sentence": incident["sentence"]
        }  # fmt: skip
