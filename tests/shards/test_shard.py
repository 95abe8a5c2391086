"""On a real Postgres, one or two shards with ordinary load fire each timer once, on time and never early."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.sql.claims.notifications import notify_of_due_timers
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, add_schedule, add_timers
from tests.support.roles import as_role
from tests.support.shard_pool import ShardPool, pool_of
from tests.support.verdict import breaches
from tests.support.waiting import eventually


@pytest.fixture
async def each_pool(each_dsn: str) -> AsyncIterator[ShardPool]:
    """Yield a pool of shards on each version of Postgres."""
    async with pool_of(each_dsn) as one:
        yield one


async def test_timers_due_at_once_and_soon_fire_once_and_never_early(each_pool: ShardPool) -> None:
    pool = each_pool
    overdue = await add_timers(pool.dsn, 50, "now() - i * interval '1 minute'")
    soon = await add_timers(pool.dsn, 300, "now() + i * interval '3 milliseconds'")
    later = await add_timers(pool.dsn, 50, "now() + interval '1 hour'")

    await pool.start()
    at_once = await add_timers(pool.dsn, 50, "now()")
    await pool.until_fired(400)

    fired = await pool.fired()
    assert sorted(row["timer_key"] for row in fired) == overdue + soon + at_once
    assert await breaches(pool.db, overdue + soon + at_once + later) == {}
    assert await pool.db.fetchval("select count(*) from shardclock.timers where claimed_by is null") == 50


async def test_a_shard_without_timers_has_the_connection_and_the_plan_of_its_first_firing(
    pool: ShardPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    real = Session.rows

    async def recording(self: Session, name: str, /, **values: Any) -> Any:
        rows = await real(self, name, **values)
        sent.append(name)
        return rows

    async def fires() -> list[int]:
        connections = "select pid from pg_stat_activity where application_name like 'shardclock shard fires %'"
        return [row["pid"] for row in await pool.db.fetch(connections)]

    monkeypatch.setattr(Session, "rows", recording)
    await pool.start()
    await eventually(lambda: "fire_due" in sent)
    before = await fires()

    await add_timers(pool.dsn, 1, "now() + interval '0.3 s'")
    await pool.until_fired(1)

    assert len(before) == 1
    assert await fires() == before


async def test_a_timer_that_is_due_immediately_is_claimed_after_its_notification(pool: ShardPool) -> None:
    shard = await pool.start(poll_s=60.0)
    await eventually(lambda: shard._notifications._on is not None)
    await add_timers(pool.dsn, 1, "now()")
    async with Session(as_role(pool.dsn, "gateway"), application="test") as gateway:
        assert await notify_of_due_timers(gateway)

    await pool.until_fired(1)


async def test_a_repeat_fires_each_occurrence_on_its_grid_and_in_order(each_pool: ShardPool) -> None:
    pool = each_pool
    await pool.start()

    # On a busy machine an occurrence may be late by a period, and the shard would skip it.
    schedule = "select shardclock.schedule_timer(schedule => $1, name => $2, missed => 'fire_all')"
    await pool.db.execute(schedule, "R8/PT0.1S", "a")
    await pool.db.execute(schedule, "R5/PT0.15S", "b")
    await pool.until_empty()

    fired = await pool.fired()
    assert await breaches(pool.db, [row["timer_key"] for row in fired]) == {}
    for name, count, period in (("a", 8, timedelta(seconds=0.1)), ("b", 5, timedelta(seconds=0.15))):
        mine = [row for row in fired if row["name"] == name]
        assert [row["occurrence"] for row in mine] == list(range(1, count + 1))
        assert [row["due_date"] - mine[0]["due_date"] for row in mine] == [k * period for k in range(count)]
        assert len({row["timer_key"] for row in mine}) == count


@pytest.mark.slow
async def test_missed_occurrences_fire_one_after_the_other_without_waiting_for_polls(pool: ShardPool) -> None:
    await add_schedule(
        pool.dsn, "R60/PT1M", missed="'fire_all'", anchor="now() - interval '61 minutes'", repetitions="60",
        due="now() - interval '1 hour'",
    )  # fmt: skip

    await pool.start(poll_s=5.0, horizon_s=6.0)
    await pool.until_fired(60, within_s=15.0)

    rows = await pool.db.fetch("select intent, occurrence from shardclock.command_log order by position")
    assert [tuple(row) for row in rows] == [("TRIGGERED", number) for number in range(1, 61)]


async def test_a_timer_scheduled_in_a_transaction_fires_if_and_when_that_commits(pool: ShardPool) -> None:
    shard = await pool.start()
    transaction = pool.db.transaction()
    await transaction.start()
    undone = await pool.db.fetchval("select shardclock.schedule_timer(delay => 'PT0S')")
    await transaction.rollback()
    transaction = pool.db.transaction()
    await transaction.start()
    kept = await pool.db.fetchval("select shardclock.schedule_timer(delay => 'PT0S')")
    witness = await add_timers(pool.dsn, 1, "now()")
    await eventually(lambda: shard.stats.fired == 1)

    await transaction.commit()
    await pool.until_fired(2)

    assert [row["timer_key"] for row in await pool.fired()] == [*witness, kept]
    assert await breaches(pool.db, [kept, *witness]) == {}
    assert undone < kept


async def test_a_cancelled_timer_in_memory_never_fires(pool: ShardPool) -> None:
    shard = await pool.start()
    cancelled, witness = await pool.lease(shard, 2, "now() + interval '0.6 s' + i * interval '0.1 s'")

    assert await pool.db.fetchval("select shardclock.cancel_timer($1)", cancelled) == "CANCELED"
    await pool.until_fired(1)

    assert [row["timer_key"] for row in await pool.fired()] == [witness]
    assert await breaches(pool.db, [cancelled, witness]) == {}
    assert shard.stats.fenced == 1
    assert len(shard) == 0


async def test_a_timer_moved_earlier_fires_at_its_new_due_date(pool: ShardPool) -> None:
    (moved,) = await pool.lease(await pool.start(), 1, "now() + interval '1.9 s'")
    old = await pool.db.fetchval("select due_date from shardclock.timers")

    await pool.db.execute("select shardclock.reschedule_timer($1, delay => 'PT0.3S')", moved)
    await pool.until_fired(1)

    (fired,) = await pool.fired()
    assert fired["due_date"] <= fired["recorded_at"] < old
    assert await breaches(pool.db, [moved]) == {}


@pytest.mark.slow
async def test_a_drained_shard_releases_its_timers_within_a_second_and_another_shard_fires_them_on_time(
    pool: ShardPool,
) -> None:
    ahead: dict[str, Any] = {"horizon_s": 5.0, "lease_s": 60.0, "queue_max": 20_000}
    first = await pool.start(**ahead)
    keys = await pool.lease(first, 5_000, "now() + interval '4 s' + i * interval '0.1 ms'")

    asked_at = time.monotonic()
    await pool.drain(first)
    assert time.monotonic() - asked_at < 1.0
    second = await pool.start(**ahead)
    await pool.until_held(second, 5_000)
    assert await pool.count_fired() == 0, "taken over before the first was due"
    await pool.until_empty()

    fired = await pool.fired()
    assert {row["holder"] for row in fired} == {second.holder}
    assert await breaches(pool.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in fired) < timedelta(seconds=1)


@pytest.mark.slow
async def test_a_shard_that_is_drained_under_load_fires_no_timer_twice(pool: ShardPool) -> None:
    keys: list[int] = []
    for _ in range(4):
        before = await pool.count_fired()
        keys += await add_timers(pool.dsn, 750, "now() + i * interval '2 ms'")
        shard = await pool.start(fire_batch=50)
        await pool.until_fired(before + 100)
        await pool.drain(shard)

    await pool.start()
    await pool.until_empty()

    assert await pool.count_fired() == len(keys)
    assert await breaches(pool.db, keys) == {}


async def test_a_shard_drained_before_it_began_ends_at_once(pool: ShardPool) -> None:
    shard = await pool.start()

    await pool.drain(shard)

    assert await pool.db.fetchval("select ended_why from shardclock.holders") == "drained"


async def test_a_shard_without_slots_of_its_own_sweeps_the_slots_that_have_no_keeper(each_pool: ShardPool) -> None:
    pool = each_pool
    keys = await add_timers(pool.dsn, 30, "now() - interval '1 s'")
    keys += await add_timers(pool.dsn, 30, "now() + interval '0.3 s'")
    rule = await add_schedule(pool.dsn, "R3/PT0.2S", "now()", anchor="now() - interval '0.2 s'", repetitions="3")

    shard = await pool.start(None, None, sweep_s=0.1, sweep_grace_s=0.5)
    await pool.until_empty()

    fired = await pool.fired()
    assert await breaches(pool.db, [*keys, rule]) == {}
    assert {row["holder"] for row in fired} == {shard.holder}
    grace = timedelta(seconds=0.5)
    assert all(row["recorded_at"] - row["due_date"] >= grace for row in fired), "the slot's keeper has precedence"


async def test_a_shard_sweeps_the_slots_of_a_missing_neighbour(pool: ShardPool) -> None:
    await pool.until_ready(await pool.start(1, 2, sweep_s=0.1, sweep_grace_s=1.0))

    keys = await add_timers(pool.dsn, 100, "now() + interval '0.2 s'")
    await pool.until_empty()

    lags = {row["timer_key"]: row["recorded_at"] - row["due_date"] for row in await pool.fired()}
    assert sorted(lags) == keys
    assert all((lag >= timedelta(seconds=1.0)) == (key % 840 % 2 == 0) for key, lag in lags.items())
    assert await breaches(pool.db, keys) == {}


async def test_a_pause_ends_at_its_moment_without_a_coordinator(pool: ShardPool) -> None:
    shard = await pool.start()
    await pool.until_ready(shard)
    (key,) = await add_timers(pool.dsn, 1, "now() + interval '0.2 s'")
    ends_at = await pool.db.fetchval("select now() + interval '1.5 s'")
    assert await pool.db.fetchval("select shardclock.pause_timer($1, until => $2)", key, ends_at) == "PAUSED"

    await pool.until_fired(1)

    (fired,) = await pool.fired()
    assert fired["timer_key"] == key
    assert timedelta(0) <= fired["recorded_at"] - ends_at < timedelta(seconds=BOUND_S)
