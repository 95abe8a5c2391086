"""Prove that a poll for signals reads one batch, however many other signals are due, wait, or have other tenants."""

from __future__ import annotations

import asyncpg
import pytest

from shardclock_server.sql.processes.signals import LaneOrder, read_due_signals
from shardclock_server.sql.session import Session
from tests.support.factories import add_holder, query
from tests.support.plans import prepare
from tests.support.process_plans import ALL_LANES, DUE, FEW, fill, literals, reading

# The starts of 50,000 instances are deferred; all were cancelled.
STARTS_CANCELLED = """
insert into shardclock.deliveries (
    timer_key, process_instance_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type,
    target, payload, failed_attempts
)
select
    s.kind * 10000000 + n, case when s.kind = 2 then 10000000 + n end, now() + s.due, now(), now(), 1, 0, 'default',
    'USER', 'process:instance', s.payload::jsonb, 2 - s.kind
from generate_series(1, 50000) n
cross join (
    values
        (1, interval '1 h', '{"kind": "begin", "definition": 9999999}'),
        (2, interval '-1 h', '{"kind": "cancel"}')
) s (kind, due, payload)
"""


@pytest.fixture
async def waiting(each_dsn: str) -> str:
    await fill(each_dsn)
    return each_dsn


@pytest.mark.parametrize("state", ["new", "analyzed", "emptied", "none deferred"])
async def test_a_poll_for_signals_reads_its_batch_of_any_number_of_due_ones(waiting: str, state: str) -> None:
    await add_holder(waiting, 9, role="engine")
    asked = {"holder": 9, "batch": len(FEW), "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}
    given = literals("read_due_signals", **asked, **ALL_LANES)
    if state == "analyzed":
        await query(waiting, DUE)
        await query(waiting, "analyze shardclock.deliveries, shardclock.instances")
    elif state == "emptied":  # as with engines that keep up
        await query(waiting, "delete from shardclock.deliveries")
        await query(waiting, "vacuum (analyze) shardclock.deliveries")
    elif state == "none deferred":
        await query(waiting, DUE)
        await query(waiting, "delete from shardclock.deliveries where failed_attempts > 0")
        await query(waiting, "vacuum (analyze) shardclock.deliveries")
    look = await prepare(waiting, "read_due_signals")
    await look.explain(*given, table="deliveries")
    if state != "analyzed":
        await query(waiting, f"{DUE} on conflict do nothing")

    rows, indexes = await reading(look, given)

    await look.connection.close()
    assert rows["deliveries"] <= 5 * len(FEW), "each, its start, and the signals that were deferred before it"
    assert rows["instances"] <= len(FEW)
    assert indexes <= {
        "deliveries_by_lane", "deliveries_of_cancellations", "deliveries_deferred", "deliveries_pkey", "instances_pkey",
        "instances_by_process",
    }  # fmt: skip


@pytest.mark.parametrize("state", ["new", "analyzed"])
async def test_a_poll_for_signals_does_not_read_another_tenants_backlog(waiting: str, state: str) -> None:
    await add_holder(waiting, 9, role="engine")
    await query(waiting, DUE)
    await query(waiting, "update shardclock.deliveries set tenant_id = 'busy' where target = 'process:instance'")
    await query(waiting, "select shardclock.send_signal(null, tenant, '{}') from unnest(array['a', 'zzz']) tenant")
    if state == "analyzed":
        await query(waiting, "analyze shardclock.deliveries, shardclock.instances")
    look = await prepare(waiting, "read_due_signals")
    asked = {"holder": 9, "batch": 12, "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}
    given = literals("read_due_signals", **asked, **ALL_LANES)

    rows, _ = await reading(look, given)
    found = await look.connection.fetch(f"execute read_due_signals ({', '.join(given)})")

    await look.connection.close()
    assert {row["tenant_id"]: None for row in found}.keys() == {"a", "busy", "zzz"}
    assert rows["deliveries"] <= 5 * 12


@pytest.mark.parametrize("state", ["new", "analyzed"])
async def test_a_poll_for_signals_reads_ten_times_its_batch_of_100000_cancellations(waiting: str, state: str) -> None:
    await add_holder(waiting, 9, 0, 2, role="engine")
    await query(waiting, "delete from shardclock.deliveries")
    await query(waiting, STARTS_CANCELLED)
    if state == "analyzed":
        await query(waiting, "analyze shardclock.deliveries, shardclock.instances")
    look = await prepare(waiting, "read_due_signals")
    asked = {"holder": 9, "batch": 12, "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}
    given = literals("read_due_signals", **asked, **ALL_LANES)

    rows, _ = await reading(look, given)
    found = await look.connection.fetch(f"execute read_due_signals ({', '.join(given)})")

    await look.connection.close()
    assert {(row["version"], row["process_id"]) for row in found} == {(None, "p")}
    assert rows["deliveries"] <= 10 * 12 * 2 + 2 * 12 + 10, (
        "cancellations and signals, with starts, and where lanes begin"
    )


@pytest.mark.parametrize("waits", ["behind a deferred signal", "for another engine", "cancelled elsewhere"])
async def test_a_poll_for_signals_reads_ten_times_its_batch_of_waiting_signals(waiting: str, waits: str) -> None:
    put_off = waits.startswith("behind")
    await add_holder(waiting, 9, 0 if put_off else 1, 1 if put_off else 2, role="engine")
    await query(waiting, "delete from shardclock.deliveries")
    signal = """'{"kind": "cancel"}'""" if waits.startswith("cancelled") else "'{}', 2"
    await query(waiting, f"select shardclock.send_signal(840, 'default', {signal}) from generate_series(1, 3000)")
    await query(waiting, f"select shardclock.send_signal(841, 'default', {signal})")
    if put_off:
        later = "next_attempt_at = now() + interval '1 h', failed_attempts = 1"
        await query(waiting, f"update shardclock.deliveries set {later} where timer_key % 3000 = 0")
    look = await prepare(waiting, "read_due_signals")
    asked = {"holder": 9, "batch": 12, "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}

    rows, _ = await reading(look, literals("read_due_signals", **asked, **ALL_LANES))

    await look.connection.close()
    readings = {"behind a deferred signal": 4, "for another engine": 2, "cancelled elsewhere": 3}
    assert rows["deliveries"] <= 10 * 12 * readings[waits] + 10, "each, and the signal that it waits for"
    async with Session(waiting, application="test") as engine:
        looks, lanes = 0, LaneOrder()
        while not (poll := await read_due_signals(engine, 9, batch=12, lanes=lanes)).signals:
            looks, lanes = looks + 1, LaneOrder(behind=poll.behind)
            assert poll.behind
            assert looks < 30
    assert [signal.instance_key for signal in poll.signals] == [841]


async def test_a_throw_reads_one_of_the_signals_that_are_sent_in_parts(waiting: str) -> None:
    parts = "select shardclock.send_signal(null, 'default', jsonb_build_object('kind', 'thrown', 'name', 'm' || n % 2))"
    await query(waiting, f"{parts} from generate_series(1, 3000) n")
    await query(waiting, "update shardclock.subscriptions set kind = 'signal', name = 'm1' where instance_key = 1")
    read = "select sum(idx_tup_fetch + seq_tup_read) from pg_stat_xact_user_tables where relname = 'deliveries'"
    connection = await asyncpg.connect(waiting)

    async with connection.transaction():
        assert await connection.fetchval("select shardclock.throw_signal('m1')") == 1
        rows = await connection.fetchval(read)

    await connection.close()
    assert rows <= 2
