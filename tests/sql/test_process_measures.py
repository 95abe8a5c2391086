"""Processes are measured by their engines, waiting signals and incidents; each measurement stops at a limit."""

from __future__ import annotations

import pytest

from shardclock_server.service.processes import deploy, start
from shardclock_server.sql.metrics.processes import ProcessMeasures, measure_processes
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import add_holder, query
from tests.support.plans import prepare

WAIT = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


async def test_no_engine_is_wanted_before_the_first_deployment(dsn: str) -> None:
    async with Session(dsn, application="test") as session:
        assert await measure_processes(session) == ProcessMeasures(0, 0, 0, 0.0, 0)
        await deploy(session, WAIT, resource="p.bpmn")
        assert await measure_processes(session) == ProcessMeasures(2, 0, 0, 0.0, 0)


async def test_waiting_signals_are_counted_with_their_age(dsn: str) -> None:
    async with Session(dsn, application="test") as session:
        await deploy(session, WAIT, resource="p.bpmn")
        for _ in range(3):
            await start(session, "p")
        await add_holder(dsn, 7)
        await query(dsn, "update shardclock.holders set role = 'engine'")
        await query(
            dsn,
            "update shardclock.deliveries set next_attempt_at = now() - interval '90 s' where timer_key ="
            " (select min(timer_key) from shardclock.deliveries)",
        )
        await query(
            dsn, "insert into shardclock.incidents (instance_key, token, node_id, sentence) values (1, 2, 'u', 'no')"
        )
        measured = await measure_processes(session)
        assert (measured.engines_alive, measured.signals_waiting, measured.incidents) == (1, 3, 1)
        assert measured.oldest_signal_s == pytest.approx(90, abs=10)
        assert (await measure_processes(session, most=2)).signals_waiting == 2


async def test_a_deferred_signal_waits_since_it_was_sent(dsn: str) -> None:
    async with Session(dsn, application="test") as session:
        await deploy(session, WAIT, resource="p.bpmn")
        for _ in range(3):
            await start(session, "p")
        await query(
            dsn,
            "update shardclock.deliveries set failed_attempts = 7, due_date = now() - interval '90 s',"
            " next_attempt_at = now() + case timer_key when (select min(timer_key) from shardclock.deliveries)"
            " then interval '30 s' else interval '-1 s' end"
            " where timer_key <> (select max(timer_key) from shardclock.deliveries)",
        )
        measured = await measure_processes(session)
        assert measured.signals_waiting == 3, "one is deferred, one is tried again now, and one was not tried"
        assert measured.oldest_signal_s == pytest.approx(90, abs=10)


# For each kind of signal: the next attempt, the due date, the target, and the number of failed attempts.
SIGNALS = {
    "deferred": "now() + interval '1 m', now() - interval '1 h', 'process:instance', 1",
    "waiting": "now() - interval '1 s', now(), case when i % 2 = 0 then 'process:instance' else 'h' end, 0",
}


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS)
async def test_of_many_signals_no_more_are_read_than_are_counted(dsn: str, signals: str) -> None:
    await query(
        dsn,
        "insert into shardclock.deliveries (next_attempt_at, due_date, target, failed_attempts, timer_key,"
        " process_instance_key, created_at, occurrence, slot, tenant_id, timer_type)"
        f" select {signals}, i, i, now(), 1, i % 840, 'default', 'USER' from generate_series(1, 4000) i",
    )
    measuring = await prepare(dsn, "measure_processes")
    reading = await measuring.explain("100", "null", touched=True, table="deliveries")
    assert reading.indexes == {"deliveries_of_processes", "deliveries_deferred"}
    assert reading.rows == 100
    await measuring.connection.close()
