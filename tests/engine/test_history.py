"""The history of an instance names the client of each operation, and the reason of each stop."""

from __future__ import annotations

from typing import Any

from shardclock_server.sql.processes import instances, tasks
from tests.support.bpmn_cluster import Processes, running

START, END, USER = '<startEvent id="s"/>', '<endEvent id="e"/>', '<userTask id="u"/>'
GATEWAY = '<exclusiveGateway id="g"/>'


async def told(it: Processes, key: int) -> list[dict[str, Any]]:
    steps = await instances.steps_of(it.session, key)
    return [{name: value for name, value in said.items() if name != "key"} for step in steps for said in step.signals]


async def test_the_history_names_the_client_and_the_variables_that_it_set() -> None:
    async with running() as it:
        await it.deploy(START + USER + END, connected="s>u u>e")
        key = await it.start(order=42)
        assert await instances.set_variables(it.session, key, {"paid": True, "amount": 5})
        await it.settle()

        begun, was_set = await told(it, key)

    assert begun["variables"] == ["order"]
    assert was_set | {"by": "postgres", "variables": ["amount", "paid"]} == was_set


async def test_the_history_names_the_person_of_a_completion_and_the_client_of_a_cancellation() -> None:
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
            "select actor, detail ->> 'assignee' as person from shardclock.task_acts where act = 'COMPLETED'"
        )
    assert act == {"actor": "postgres", "person": "ann"}


async def test_the_history_names_the_api_key_of_an_operation() -> None:
    async with running() as it:
        await it.deploy(START + USER + END, connected="s>u u>e")
        key = await it.start()
        it.session.serve(frozenset({"default"}), "ab12cd34")
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await it.settle()
        _, cancelled = await told(it, key)
    assert (cancelled["by"], cancelled["key_prefix"]) == ("postgres", "ab12cd34")


async def test_the_history_has_the_reason_of_a_resolved_incident() -> None:
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
