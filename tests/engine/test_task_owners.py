"""A task's record names the person of each claim, return and completion."""

from __future__ import annotations

import asyncio

from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.session import Session
from tests.support.bpmn_cluster import Processes, holding, running
from tests.support.factories import until_blocked

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
USER = '<userTask id="u" name="Approve"/>'


async def waiting(it: Processes) -> int:
    await it.deploy(START + USER + END, connected="s>u u>e")
    await it.start()
    (task,) = await tasks.find_tasks(it.session)
    return task.task_key


async def complete(it: Processes, key: int, assignee: str | None = None) -> str:
    return await tasks.complete_task(it.session, key, variables={}, assignee=assignee)


async def told(it: Processes, key: int) -> list[tuple[str, str | None]]:
    """List a task's acts with their persons, and the completion in its instance's history."""
    found = await tasks.find_task(it.session, key)
    assert found is not None
    steps = await instances.steps_of(it.session, found.instance_key)
    by = [("by", said.get("by")) for step in steps for said in step.signals if said["kind"] == "completed"]
    return [(act.act, act.detail.get("assignee")) for act in found.acts] + by


async def test_the_person_who_completes_an_unassigned_task_is_recorded() -> None:
    async with running() as it:
        key = await waiting(it)
        assert await complete(it, key, "bob") == "COMPLETED"
        open_still = await tasks.find_task(it.session, key)
        assert open_still is not None
        assert (open_still.state, open_still.assignee) == ("COMPLETED", "bob")
        rows = await it.query("select assignee from shardclock.tasks")
        assert [row["assignee"] for row in rows] == [None], "an engine opens the row again if its token had stopped"
        await it.settle()
        assert await told(it, key) == [("CREATED", None), ("COMPLETED", "bob"), ("by", "bob")]


async def test_a_task_is_completed_only_by_its_assignee_if_a_person_is_named() -> None:
    async with running() as it:
        key = await waiting(it)
        await tasks.claim_task(it.session, key, assignee="ann")
        assert await complete(it, key, "bob") == "TAKEN"
        assert [(task.task_key, task.assignee) for task in await tasks.find_tasks(it.session)] == [(key, "ann")]
        assert await tasks.complete_task(it.session, key, variables={}, assignee="bob", tenant_id="x") == "NOT_FOUND"
        assert await complete(it, key, "ann") == "COMPLETED"
        assert await complete(it, key, "bob") == "COMPLETED_BEFORE"
        await it.settle()
        assert await told(it, key) == [("CREATED", None), ("ASSIGNED", "ann"), ("COMPLETED", "ann"), ("by", "ann")]


async def test_a_completion_without_a_person_is_recorded_for_the_assignee() -> None:
    async with running() as it:
        key = await waiting(it)
        await tasks.claim_task(it.session, key, assignee="ann")
        assert await complete(it, key) == "COMPLETED"
        await it.settle()
        assert (await told(it, key))[-2:] == [("COMPLETED", "ann"), ("by", "ann")]

        nobodys = await waiting(it)
        assert await complete(it, nobodys) == "COMPLETED"
        await it.settle()
        assert (await told(it, nobodys))[-2:] == [("COMPLETED", None), ("by", "postgres")]


async def test_only_the_first_of_a_concurrent_claim_and_completion_succeeds() -> None:
    async with running() as it, Session(it.cluster.dsn, application="bob") as bobs:
        key = await waiting(it)
        async with bobs.connection() as connection:
            pid = connection.get_server_pid()
        async with holding(it, "select shardclock.claim_task($1, 'ann')", key, commits=True):
            asked = asyncio.create_task(tasks.complete_task(bobs, key, variables={}, assignee="bob"))
            await until_blocked(it.cluster.dsn, pid, asked)
        assert await asked == "TAKEN"


async def test_a_task_without_its_assignee_is_in_its_first_state_again() -> None:
    async with running() as it:
        key = await waiting(it)
        await tasks.claim_task(it.session, key, assignee="ann")
        assert await tasks.claim_task(it.session, key, assignee=None) == "CREATED"
        found = await tasks.find_task(it.session, key)
        assert found is not None
        assert (found.state, found.assignee) == ("CREATED", None)


async def test_a_claim_of_an_ended_task_returns_its_end() -> None:
    async with running() as it:
        key = await waiting(it)
        await complete(it, key)
        for _ in ("before an engine has taken it", "after"):
            assert await tasks.claim_task(it.session, key, assignee="ann") == "COMPLETED_BEFORE"
            assert await tasks.claim_task(it.session, key, assignee=None) == "COMPLETED_BEFORE"
            await it.settle()
        assert await tasks.claim_task(it.session, key, assignee="ann", tenant_id="other") == "NOT_FOUND"

        canceled = await waiting(it)
        found = await tasks.find_task(it.session, canceled)
        assert found is not None
        await instances.cancel_instance(it.session, found.instance_key)
        await it.settle()
        assert await tasks.claim_task(it.session, canceled, assignee="ann") == "CANCELED"
        assert await tasks.claim_task(it.session, canceled + 1_000, assignee="ann") == "NOT_FOUND"
