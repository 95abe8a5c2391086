"""If a transaction has locked a wait, the engine closes the wait after the transaction's commit or rollback."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardclock_server.sql.clock.moved import move
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.processes.service_tasks import activate_service_tasks
from tests.support.bpmn import SHARED, boundary, job, timer
from tests.support.bpmn_cluster import NOW, Processes, holding, running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
RECEIVE = '<receiveTask id="r" messageRef="m"/>'
CALL = (
    '<callActivity id="c"><extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
    "</callActivity>"
)


async def let_an_hour_pass(it: Processes) -> None:
    """Let a boundary timer with a delay of an hour fire, and process its signal."""
    await move(it.session, NOW + timedelta(hours=1))
    await it.shard.step()
    await it.engine.step()


async def look_again(it: Processes) -> None:
    """Move the clock to the moment when an engine tries locked waits again."""
    await it.advance("PT1H1S")


async def test_a_message_to_a_token_that_has_moved_on_is_not_lost() -> None:
    """A publisher's open transaction locks a subscription, which then receives another publisher's message."""
    gives_up = boundary("b", "r", timer("timeDuration", "PT1H")) + '<userTask id="w"/>'
    async with running() as it:
        await it.deploy(START + RECEIVE + gives_up + END, connected="s>r r>e b>w", beside=SHARED)
        first = await it.start(order="42")
        async with holding(it, "select shardclock.publish_message('paid', '42')"):
            await let_an_hour_pass(it)
        assert [task.instance_key for task in await tasks.find_tasks(it.session)] == [first], "its token has gone on"
        await look_again(it)
        second = await it.start(order="42")
        reached = await instances.publish_message(
            it.session, "paid", correlation="42", variables={}, tenant_id="default"
        )
        await it.settle()
        assert reached == [second]
        assert await it.state(second) == "COMPLETED"


async def test_a_locked_signal_to_an_ended_instance_delays_no_other_signal() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        key = await it.start()
        await it.query("select shardclock.send_signal($1, 'default', $2, 1)", key, '{"kind": "failed"}')
        await it.settle()
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await it.settle()
        async with holding(it, "select from shardclock.deliveries where failed_attempts > 0 for update"):
            other = await it.start()
            await move(it.session, NOW + timedelta(seconds=1))
            await it.engine.step()
            assert await it.state(other) == "RUNNING"
        await look_again(it)
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_a_task_that_was_locked_when_its_token_left_is_closed_later() -> None:
    gives_up = boundary("b", "u", timer("timeDuration", "PT1H")) + '<userTask id="w"/>'
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + gives_up + END, connected="s>u u>e b>w")
        await it.start()
        (task,) = await tasks.find_tasks(it.session)
        async with holding(it, "select shardclock.claim_task($1, 'ann')", task.task_key):
            await let_an_hour_pass(it)
        await look_again(it)
        assert [one.node_id for one in await tasks.find_tasks(it.session)] == ["w"]


async def test_a_timer_that_was_moved_when_its_token_left_is_cancelled_later() -> None:
    later = "due_date => now() + interval '1 year'"
    moved = f"select shardclock.change_system_timer('reschedule', t.timer_key, {later}) from shardclock.timers t"
    gives_up = boundary("b", "u", timer("timeDuration", "PT1H")) + '<userTask id="w"/>'
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + gives_up + END, connected="s>u u>e b>w")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        async with holding(it, moved, commits=True):
            await tasks.complete_task(it.session, task.task_key, variables={})
            await it.engine.step()
        assert await it.state(key) == "COMPLETED"
        await it.advance("PT1S")
        assert await it.query("select timer_key from shardclock.timers") == []


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_service_task_that_was_locked_when_its_token_left_is_not_handed_out(is_cancelled: bool) -> None:
    """A program's open transaction locks a task, so the engine can close the task only after the transaction."""
    gives_up = boundary("b", "pack", timer("timeDuration", "PT1H")) + '<userTask id="w"/>'
    async with running() as it:
        await it.deploy(START + job("pack") + gives_up + END, connected="s>pack pack>e b>w")
        key = await it.start()
        async with holding(it, "select shardclock.activate_service_tasks('pack')"):
            if is_cancelled:
                assert await instances.cancel_instance(it.session, key) == "SENT"
            else:
                await let_an_hour_pass(it)
            await it.engine.step()
        assert await it.state(key) == ("CANCELED" if is_cancelled else "RUNNING")
        await look_again(it)
        taken = await activate_service_tasks(it.session, "pack", most=10, lease_s=30.0, tenant_id="default")
        assert taken == []


async def test_a_child_that_begins_while_its_call_ends_is_cancelled_with_the_call() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e", process_id="child")
        await it.deploy(START + CALL + END, connected="s>c c>e")
        parent = (await it.query("select shardclock.start_process('p') as key"))[0]["key"]
        for runner in it.engine._runners:
            await runner.turn()
        # The transaction locks the row that an engine also locks when it starts the child
        async with holding(it, "select 1 from shardclock.deliveries where name is not null for update"):
            assert await instances.cancel_instance(it.session, parent) == "SENT"
            await it.engine.step()
            assert await it.state(parent) == "CANCELED"
        await look_again(it)
        await it.settle()
        assert [it.state for it in await instances.find_instances(it.session, process_id="child")] in ([], ["CANCELED"])
        assert await it.query("select 1 from shardclock.deliveries") == []
