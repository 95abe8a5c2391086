"""An engine processes the signals of one instance in their order, even if it can't process one of these signals."""

from __future__ import annotations

import pytest

from shardclock_server.service import processes
from shardclock_server.sql.processes import instances, tasks
from tests.support.bpmn_cluster import Processes, running
from tests.support.factories import add_holder, query
from tests.support.plans import prepare

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
UNREADABLE = '{"kind": "failed"}'  # an engine can't read this signal, because it lacks the field `reason`
# The engine makes five tries, half a second apart.
TRIES = ["PT0.5S"] * 4


async def _waiting(it: Processes) -> int:
    await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
    return await it.start()


async def _send_unreadable(it: Processes, key: int) -> None:
    await it.query("select shardclock.send_signal($1, 'default', $2, 1)", key, UNREADABLE)


async def test_a_later_signal_does_not_overtake_a_deferred_signal() -> None:
    async with running() as it:
        key, other = await _waiting(it), await it.start()
        await _send_unreadable(it, key)
        await it.settle()
        assert await instances.set_variables(it.session, key, {"later": 1})
        assert await instances.set_variables(it.session, other, {"beside": 1})
        await it.settle()
        assert processes.variables_of(await it.see(key)) == {}
        assert processes.variables_of(await it.see(other)) == {"beside": 1}

        # After the fifth try, the signal becomes a dead letter, and the engine processes the later signal.
        for pause in TRIES:
            assert processes.variables_of(await it.see(key)) == {}
            await it.advance(pause)
        assert processes.variables_of(await it.see(key)) == {"later": 1}
        assert len(await it.query("select 1 from shardclock.dead_letters")) == 1


async def test_a_deferred_signal_is_processed_before_later_signals() -> None:
    async with running() as it:
        key = await _waiting(it)
        await _send_unreadable(it, key)
        await it.settle()
        for value in (1, 2):
            assert await instances.set_variables(it.session, key, {"a": value})
        await it.query(
            "update shardclock.deliveries set payload = $1 where failed_attempts = 1",
            '{"kind": "variables", "variables": {"a": 0, "first": true}}',
        )
        await it.advance("PT0.5S")
        assert processes.variables_of(await it.see(key)) == {"a": 2, "first": True}
        kinds = [said["key"] for step in await instances.steps_of(it.session, key) for said in step.signals]
        assert kinds == sorted(kinds)


@pytest.mark.parametrize("puts_off", [1, 2])
async def test_a_cancellation_waits_for_no_deferred_signal(puts_off: int) -> None:
    async with running() as it:
        key = await _waiting(it)
        for _ in range(puts_off):
            await _send_unreadable(it, key)
        await it.settle()
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await it.settle()
        assert await it.state(key) == "CANCELED"
        await it.advance("PT1M")
        assert await it.query("select 1 from shardclock.deliveries") == []
        assert await it.query("select 1 from shardclock.dead_letters") == []
        assert await tasks.find_tasks(it.session) == []


async def test_signals_are_ordered_by_reading_only_the_deferred_signals(dsn: str) -> None:
    add = (
        "insert into shardclock.deliveries (timer_key, process_instance_key, next_attempt_at, due_date, created_at,"
        " occurrence, slot, tenant_id, timer_type, target, failed_attempts, payload)"
        " select 10000 + i, i % 1000 + 1, now() - interval '1 s', now(), now(), 1, (i % 1000 + 1) % 840, 'default',"
        " 'USER', 'process:instance', (i <= 10)::integer, '{\"kind\": \"variables\"}' from generate_series(1, 3000) i"
    )
    await query(dsn, add)
    await add_holder(dsn, 1, 0, 1)
    taking = await prepare(dsn, "read_due_signals")
    reading = await taking.explain(
        "1",
        "500",
        "1000000",
        "0",
        "1",
        "'{}'",
        "'{}'",
        "'{}'",
        "''",
        "'{}'",
        "'{}'",
        "'{}'",
        touched=True,
        table="deliveries",
    )
    assert reading.indexes == {
        "deliveries_by_lane", "deliveries_of_cancellations", "deliveries_deferred", "deliveries_pkey"
    }  # fmt: skip
    # The statement reads the 500 signals of its batch, and searches for the starts of their instances. At most 20
    # signals wait behind the ten deferred signals; each waiting signal costs one more row.
    assert reading.rows <= 600
    await taking.connection.close()
