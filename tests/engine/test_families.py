"""The depth and the number of called instances are limited; called instances end together with their caller."""

from __future__ import annotations

import pytest

from shardclock_server.engine.batch import CallLimits
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.apply import DESCENDANTS_MAX
from tests.support.bpmn import flows
from tests.support.bpmn_cluster import Processes, running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
LOOP = "<multiInstanceLoopCharacteristics{}><extensionElements><zeebe:loopCharacteristics"
LOOP += ' inputCollection="=[1, 2, 3]"/></extensionElements></multiInstanceLoopCharacteristics>'
CALLED = '<extensionElements><zeebe:calledElement processId="p"/></extensionElements>'
GROWS = f'{START}<callActivity id="c">{CALLED}{LOOP.format("")}</callActivity>{END}'
LIVING = "select count(*)::integer as n from shardclock.instances where parent_key is not null and ended_at is null"


def limit(it: Processes, *, depth_max: int = 100, descendants_max: int) -> None:
    for runner in it.engine._runners:
        runner._calls = CallLimits(depth_max, descendants_max)


@pytest.mark.parametrize("most", [1, 40])
async def test_a_process_that_calls_itself_many_times_stops_growing_with_incidents(most: int) -> None:
    async with running() as it:
        limit(it, descendants_max=most)
        await it.deploy(GROWS, connected="s>c c>e")

        key = await it.start()

        assert (await it.query(LIVING))[0]["n"] <= most
        assert await it.query("select 1 from shardclock.deliveries") == []
        sentences = {row["sentence"] for row in await it.query("select sentence from shardclock.incidents")}
        refusal = (
            f'the process "p" would be called while instance {key} has {most} called instances below it, and there may'
            f" be {most}; let fewer live at a time, or cancel instance {key}; then resolve this"
        )
        assert sentences <= {refusal, f"the called process can't begin: {refusal}"}
        assert refusal in sentences


async def test_in_a_full_family_calls_begin_no_more_instances() -> None:
    # Given a process that calls itself a hundred times, each time inside a separate sub-process
    inside = f'<startEvent id="zs"/><callActivity id="c">{CALLED}</callActivity>{flows("zs>c")}'
    many = LOOP.format("").replace("[1, 2, 3]", "for i in 1..100 return i")
    async with running() as it:
        limit(it, descendants_max=150)
        await it.deploy(f'{START}<subProcess id="z">{inside}{many}</subProcess>', connected="s>z")

        await it.start()

        # Then few instances start; each other start is refused with one incident
        assert (await it.query(LIVING))[0]["n"] <= 120, "no more than the first batches"
        assert len(await it.query("select from shardclock.incidents")) <= 120 * 100
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_an_incident_at_the_limit_of_called_instances_can_be_resolved_below_the_limit() -> None:
    task = f'{START}<userTask id="u"/>{END}'
    calls = f'{START}<callActivity id="c">{CALLED.replace("p", "child", 0)}</callActivity>{END}'
    many = calls.replace('processId="p"', 'processId="child"').replace(
        "</callActivity>", f"{LOOP.format('')}</callActivity>"
    )
    async with running() as it:
        limit(it, descendants_max=2)
        await it.deploy(task, connected="s>u u>e", process_id="child")
        await it.deploy(many, connected="s>c c>e")
        key = await it.start()
        for _ in range(2):
            await it.query("select shardclock.complete_task(task_key) from shardclock.tasks")
            await it.settle()
        (stuck,) = await it.query("select token from shardclock.incidents where instance_key = $1", key)

        assert await instances.resolve_incident(it.session, key, stuck["token"])
        await it.settle()
        await it.query("select shardclock.complete_task(task_key) from shardclock.tasks")
        await it.settle()

        assert await it.state(key) == "COMPLETED"


async def test_the_limit_of_called_instances_is_for_each_root_instance() -> None:
    task = f'{START}<userTask id="u"/>{END}'
    calls = f'{START}<callActivity id="c">{CALLED.replace(chr(34) + "p", chr(34) + "child")}</callActivity>{END}'
    async with running() as it:
        limit(it, descendants_max=1)
        await it.deploy(task, connected="s>u u>e", process_id="child")
        await it.deploy(calls, connected="s>c c>e")
        for _ in range(3):
            await it.start()

        assert (await it.query(LIVING))[0]["n"] == 3
        assert await it.query("select sentence from shardclock.incidents") == []


async def test_the_depth_of_calls_is_a_setting() -> None:
    called = f'{START}<callActivity id="c">{CALLED}</callActivity>'
    async with running() as it:
        limit(it, depth_max=3, descendants_max=100)
        await it.deploy(called, connected="s>c")
        await it.start()
        assert (await it.query(LIVING))[0]["n"] == 3
        (stuck,) = await it.query("select sentence from shardclock.incidents")
        assert stuck["sentence"] == (
            "the process 'p' would be number 4 in a chain of calls; at most 3 are allowed; remove the endless recursion"
        )
    assert EngineSettings().calls_depth_max == CallLimits().depth_max
    assert EngineSettings().descendants_max == CallLimits().descendants_max == DESCENDANTS_MAX


@pytest.mark.parametrize("turns", [4, 7])
async def test_after_the_cancel_of_a_growing_family_no_further_instance_starts(turns: int) -> None:
    # Given an instance with descendants on several levels; each level has three times as many instances as the level
    # above
    async with running() as it:
        limit(it, descendants_max=1_000)
        await it.deploy(GROWS, connected="s>c c>e")
        key = (await it.query("select shardclock.start_process('p') as key"))[0]["key"]
        (runner,) = it.engine._runners
        for _ in range(turns):
            runner._batch = 100
            await runner.turn()
        assert (await it.query("select 1 from shardclock.deliveries")) != [], "it still grows"

        # When a client cancels the instance and deletes its definition
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await runner.turn()
        assert await it.state(key) == "CANCELED"
        before = (await it.query("select count(*) from shardclock.instances"))[0]["count"]

        # Then no further instance starts, and all instances end within a limited number of turns
        for _ in range(2 * turns + 10):
            await runner.turn()
        assert (await it.query("select count(*) from shardclock.instances"))[0]["count"] == before
        assert (await it.query(LIVING))[0]["n"] == 0
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_cancellations_of_called_instances_come_before_their_other_signals() -> None:
    # Given called instances with a hundred signals each
    task = f'{START}<userTask id="u"/>{END}'
    calls = f'{START}<callActivity id="c">{CALLED.replace(chr(34) + "p", chr(34) + "child")}{LOOP.format("")}'
    async with running() as it:
        await it.deploy(task, connected="s>u u>e", process_id="child")
        await it.deploy(f"{calls}</callActivity>{END}", connected="s>c c>e")
        key = await it.start()
        await it.query(
            "select shardclock.set_variables(instance_key, jsonb_build_object('v', i))"
            " from shardclock.instances, generate_series(1, 100) i where parent_key is not null"
        )
        (runner,) = it.engine._runners
        runner._batch = runner._batch_max = 8

        # When the caller is cancelled, then the called instances end in the second turn
        assert await instances.cancel_instance(it.session, key) == "SENT"
        for _ in range(2):
            await runner.turn()
        assert (await it.query(LIVING))[0]["n"] == 0
