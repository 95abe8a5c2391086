"""A signal that an engine can't process delays no other instance, and can be redriven after a correction."""

from __future__ import annotations

import pytest
import structlog

from shardclock_server.engine.runner import SignalRunner
from shardclock_server.engine.stats import EngineStats
from shardclock_server.service import processes
from shardclock_server.service.dead_letters import change_letters, discarding
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, redrive_dead_letters
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.session import Session, StoreTooSlow
from tests.support.bpmn import model
from tests.support.bpmn_cluster import Processes, running
from tests.support.factories import add_holder, query
from tests.support.operations import an_operator

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
USER = START + '<userTask id="u"/>' + END
CALL = START + (
    '<callActivity id="c"><extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
    "</callActivity>"
)


async def given_up(it: Processes, key: int) -> int:
    """Make the state unreadable so that a task's completion becomes a dead letter; then correct the state."""
    (task,) = await tasks.find_tasks(it.session)
    (stored,) = await it.query("select state from shardclock.instances where instance_key = $1", key)
    await it.query("update shardclock.instances set state = 'x' where instance_key = $1", key)
    assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
    for _ in range(6):
        await it.advance("PT1S")
    await it.query("update shardclock.instances set state = $2 where instance_key = $1", key, stored["state"])
    (dead,) = await it.query("select timer_key from shardclock.dead_letters")
    return int(dead["timer_key"])


async def test_a_signal_that_its_instance_needs_can_be_redriven_but_not_discarded() -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u u>e")
        key = await it.start()
        dead = await given_up(it, key)

        acted = await change_letters(
            it.session, discarding(it.session), DeadLetterFilter(), dry_run=False, by=an_operator()
        )
        assert acted.keys == []
        assert acted.sentence == (
            "nothing was changed; unchanged: 1 had a waiting instance: redrive the signal, or cancel the instance"
        )
        assert await redrive_dead_letters(it.session, [dead]) == [dead]
        await it.settle()

        assert await it.state(key) == "COMPLETED"


async def test_a_signal_to_an_instance_that_has_ended_is_discarded() -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u u>e")
        key = await it.start()
        dead = await given_up(it, key)
        await instances.cancel_instance(it.session, key)
        await it.settle()

        assert (await change_letters(it.session, discarding(it.session), DeadLetterFilter(), dry_run=False)).keys == [
            dead
        ]


async def test_incidents_of_an_instance_are_hidden_from_other_tenants() -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u u>e")
        key = await it.start()
        await given_up(it, key)
        (incident,) = await it.query("select token from shardclock.incidents")

        assert not await instances.resolve_incident(it.session, key, incident["token"], tenant_id="other")


@pytest.mark.parametrize("payload", ['{"kind": "happened", "message": "x"}', '{"kind": "happened", "message": 1e99}'])
async def test_a_signal_to_an_ended_instance_may_have_any_content(payload: str) -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u u>e")
        ended = await it.start()
        await instances.cancel_instance(it.session, ended)
        await it.settle()
        await it.query("select shardclock.send_signal($1, 'default', $2::jsonb)", ended, payload)

        assert await it.state(await it.start()) == "RUNNING"


async def test_a_called_instance_that_has_not_begun_shows_its_caller(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        runner = SignalRunner(steps, 1, EngineStats(), batch=500, log=structlog.get_logger())
        await processes.deploy(session, model(USER, connected="s>u u>e", process_id="child"), resource="c.bpmn")
        await processes.deploy(session, model(CALL, connected="s>c"), resource="p.bpmn")
        key = await processes.start(session, "p")
        await runner.turn()

        (starting,) = await instances.find_instances(session, state="STARTING")
        assert (starting.process_id, starting.parent_key) == ("child", key)
        assert (await processes.find(session, starting.instance_key)).found == starting


async def test_a_step_that_times_out_in_postgres_is_deferred_and_other_steps_continue(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with (
        Session(dsn, application="test") as session,
        Session(dsn, application="engine", timeout_s=1.0) as steps,
    ):
        runner = SignalRunner(steps, 1, EngineStats(), batch=500, log=structlog.get_logger())
        await processes.deploy(session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        slow, other = [await processes.start(session, "p") for _ in range(2)]
        await query(dsn, SLEEPS.format(key=slow))
        await query(dsn, SLOW)

        for _ in range(3):
            await runner.turn()

        found = [await processes.find(session, key) for key in (slow, other)]
        assert [one.found.state for one in found] == ["STARTING", "RUNNING"]
        (put_off,) = await query(dsn, "select failed_attempts, failures::text from shardclock.deliveries")
        assert put_off["failed_attempts"] >= 1
        assert "statement timeout" in put_off["failures"]

        # The age of a deferred signal counts from the moment when the signal was sent.
        await query(dsn, "update shardclock.deliveries set next_attempt_at = now() + interval '1 m'")
        measured = await measure_processes(session)
        assert measured.signals_waiting == 1
        assert measured.oldest_signal_s > 0.4, "the statement that took too long"


async def test_a_statement_that_the_server_ended_is_distinguished_from_a_lost_server(dsn: str) -> None:
    async with Session(dsn, application="test", timeout_s=2.0) as session:
        await session.rows("read_clock")  # connect before the test, because a connect would use a part of the timeout
        with pytest.raises(StoreTooSlow):
            async with session.connection() as connection:
                await connection.execute("select pg_sleep(5)")


# An instance with a row that takes the server two seconds to write.
SLEEPS = """
create function public.take_long() returns trigger language plpgsql as $$
begin
    if new.instance_key = {key} then perform pg_sleep(2); end if;
    return new;
end $$
"""
SLOW = "create trigger slow before insert on shardclock.instances for each row execute function public.take_long()"
