"""One shard, or two, at everyday work on a real Postgres: each timer fires once, on time and never early."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.crew import Crew, crew_of
from tests.store import add_schedule, add_timers
from tests.verdict import breaches
from tests.waiting import eventually


@pytest.fixture
async def crew(dsn: str) -> AsyncIterator[Crew]:
    """Give a crew on Postgres 18."""
    async with crew_of(dsn) as one:
        yield one


@pytest.fixture
async def each_crew(each_dsn: str) -> AsyncIterator[Crew]:
    """Give a crew on each version of Postgres."""
    async with crew_of(each_dsn) as one:
        yield one


async def test_timers_due_at_once_and_soon_fire_once_and_never_early(each_crew: Crew) -> None:
    crew = each_crew
    overdue = await add_timers(crew.dsn, 50, "now() - i * interval '1 minute'")
    soon = await add_timers(crew.dsn, 300, "now() + i * interval '3 milliseconds'")
    later = await add_timers(crew.dsn, 50, "now() + interval '1 hour'")

    await crew.start()
    at_once = await add_timers(crew.dsn, 50, "now()")
    await crew.until_fired(400)

    fired = await crew.fired()
    assert sorted(row["timer_key"] for row in fired) == overdue + soon + at_once
    assert await breaches(crew.db, overdue + soon + at_once + later) == {}
    assert await crew.db.fetchval("select count(*) from shardclock.timers where claimed_by is null") == 50


async def test_a_repeat_fires_each_occurrence_on_its_grid_and_in_order(each_crew: Crew) -> None:
    crew = each_crew
    await crew.start()

    await crew.db.execute("select shardclock.schedule_timer(schedule => 'R8/PT0.1S', name => 'a')")
    await crew.db.execute("select shardclock.schedule_timer(schedule => 'R5/PT0.15S', name => 'b')")
    await crew.until_empty()

    fired = await crew.fired()
    assert await breaches(crew.db, [row["timer_key"] for row in fired]) == {}
    for name, count, period in (("a", 8, timedelta(seconds=0.1)), ("b", 5, timedelta(seconds=0.15))):
        mine = [row for row in fired if row["name"] == name]
        assert [row["occurrence"] for row in mine] == list(range(1, count + 1))
        assert [row["due_date"] - mine[0]["due_date"] for row in mine] == [k * period for k in range(count)]
        assert len({row["timer_key"] for row in mine}) == count


async def test_missed_occurrences_that_are_fired_one_by_one_do_not_wait_for_a_poll_each(crew: Crew) -> None:
    await add_schedule(
        crew.dsn, "R60/PT1M", missed="'fire_all'", anchor="now() - interval '61 minutes'", repetitions="60",
        due="now() - interval '1 hour'",
    )  # fmt: skip

    await crew.start(poll_s=5.0, horizon_s=6.0)
    await crew.until_fired(60, within_s=15.0)

    rows = await crew.db.fetch("select intent, occurrence from shardclock.command_log order by position")
    assert [tuple(row) for row in rows] == [("TRIGGERED", number) for number in range(1, 61)]


async def test_a_repeat_that_missed_occurrences_fires_once_for_the_gap_and_says_how_many(crew: Crew) -> None:
    anchor = "now() - interval '65 minutes'"
    await add_schedule(crew.dsn, "R/PT10M", "now() - interval '55 minutes'", anchor=anchor)

    await crew.start()
    await crew.until_fired(1)

    records = await crew.db.fetch("select intent, occurrence, detail from shardclock.command_log order by position")
    assert [tuple(row) for row in records] == [
        ("TRIGGERED", 1, None),
        ("SKIPPED", 2, '{"count": 5, "policy": "fire_once"}'),
    ]
    assert await crew.db.fetchval("select occurrence from shardclock.timers") == 7


async def test_a_timer_scheduled_in_a_transaction_fires_if_and_when_that_commits(crew: Crew) -> None:
    shard = await crew.start()
    transaction = crew.db.transaction()
    await transaction.start()
    undone = await crew.db.fetchval("select shardclock.schedule_timer(delay => 'PT0S')")
    await transaction.rollback()
    transaction = crew.db.transaction()
    await transaction.start()
    kept = await crew.db.fetchval("select shardclock.schedule_timer(delay => 'PT0S')")
    witness = await add_timers(crew.dsn, 1, "now()")
    await eventually(lambda: shard.tally.fired == 1)

    await transaction.commit()
    await crew.until_fired(2)

    assert [row["timer_key"] for row in await crew.fired()] == [*witness, kept]
    assert await breaches(crew.db, [kept, *witness]) == {}
    assert undone < kept


async def test_timers_in_memory_fire_in_the_order_of_their_due_dates(crew: Crew) -> None:
    # Given timers whose keys, slots and due dates are in three different orders.
    await add_timers(crew.dsn, 500, "now() + interval '0.5 s' + (i * 7919 % 500) * interval '1 ms'")

    shard = await crew.start()
    await crew.until_fired(500)

    due_dates = [row["due_date"] for row in await crew.fired()]
    assert due_dates == sorted(due_dates)
    assert shard.tally.claimed == 500, "none was fired by the claim itself"


async def test_two_shards_on_the_same_slots_fire_each_timer_once(each_crew: Crew) -> None:
    crew = each_crew
    keys = await add_timers(crew.dsn, 2_000, "now() + (i % 1000 - 200) * interval '1 ms'")

    shards = [await crew.start(0, 1), await crew.start(0, 1)]
    await crew.until_empty()

    assert await crew.count_fired() == len(keys)
    assert await breaches(crew.db, keys) == {}
    assert sum(shard.tally.fired for shard in shards) == len(keys)


async def test_shards_keep_to_their_own_slots(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 840, "now() + i % 2 * interval '0.5 s'")

    shards = [await crew.start(place, 3) for place in range(3)]
    await crew.until_empty()

    assert [shard.tally.fired for shard in shards] == [280, 280, 280]
    fired = {row["timer_key"]: row["holder"] for row in await crew.fired()}
    assert fired == {key: shards[key % 840 % 3].holder for key in keys}


async def test_a_cancelled_timer_never_fires_though_it_is_in_memory(crew: Crew) -> None:
    cancelled, witness = await add_timers(crew.dsn, 2, "now() + interval '0.6 s' + i * interval '0.1 s'")
    shard = await crew.start()
    await crew.until_held(shard, 2)

    assert await crew.db.fetchval("select shardclock.cancel_timer($1)", cancelled) == "CANCELED"
    await crew.until_fired(1)

    assert [row["timer_key"] for row in await crew.fired()] == [witness]
    assert await breaches(crew.db, [cancelled, witness]) == {}
    assert shard.tally.fenced == 1
    assert len(shard) == 0


async def test_a_timer_moved_later_does_not_fire_at_its_old_due_date(crew: Crew) -> None:
    moved, witness = await add_timers(crew.dsn, 2, "now() + i * interval '0.4 s'")
    shard = await crew.start()
    await crew.until_held(shard, 2)

    await crew.db.execute("select shardclock.reschedule_timer($1, delay => 'PT1.2S')", moved)
    await crew.until_fired(2)

    assert [row["timer_key"] for row in await crew.fired()] == [witness, moved]
    assert await breaches(crew.db, [moved, witness]) == {}


async def test_a_timer_moved_earlier_fires_at_its_new_due_date(crew: Crew) -> None:
    (moved,) = await add_timers(crew.dsn, 1, "now() + interval '1.9 s'")
    shard = await crew.start()
    await crew.until_held(shard, 1)
    old = await crew.db.fetchval("select due_date from shardclock.timers")

    await crew.db.execute("select shardclock.reschedule_timer($1, delay => 'PT0.3S')", moved)
    await crew.until_fired(1)

    (fired,) = await crew.fired()
    assert fired["due_date"] <= fired["recorded_at"] < old
    assert await breaches(crew.db, [moved]) == {}


@pytest.mark.slow
async def test_a_drained_shard_hands_back_within_a_second_and_another_fires_on_time(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 5_000, "now() + interval '2 s' + i * interval '0.1 ms'")
    ahead: dict[str, Any] = {"horizon_s": 5.0, "lease_s": 60.0, "queue_max": 20_000}
    first = await crew.start(**ahead)
    await crew.until_held(first, 5_000)

    asked_at = time.monotonic()
    await crew.drain(first)
    assert time.monotonic() - asked_at < 1.0
    second = await crew.start(**ahead)
    await crew.until_held(second, 5_000)
    assert await crew.count_fired() == 0, "taken over before the first was due"
    await crew.until_empty()

    fired = await crew.fired()
    assert {row["holder"] for row in fired} == {second.holder}
    assert await breaches(crew.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in fired) < timedelta(seconds=1)


@pytest.mark.slow
async def test_a_shard_that_is_drained_under_load_fires_nothing_twice(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 3_000, "now() + (i % 1500) * interval '1 ms'")
    for _ in range(4):
        shard = await crew.start(fire_batch=50)
        before = await crew.count_fired()
        await crew.until_fired(before + 100)
        await crew.drain(shard)

    await crew.start()
    await crew.until_empty()

    assert await crew.count_fired() == len(keys)
    assert await breaches(crew.db, keys) == {}


async def test_a_shard_drained_before_it_began_ends_at_once(crew: Crew) -> None:
    shard = await crew.start()

    await crew.drain(shard)

    assert await crew.db.fetchval("select ended_why from shardclock.holders") == "drained"


async def test_a_shard_without_an_assignment_sweeps_what_nobody_keeps(each_crew: Crew) -> None:
    crew = each_crew
    keys = await add_timers(crew.dsn, 30, "now() - interval '1 s'")
    keys += await add_timers(crew.dsn, 30, "now() + interval '0.3 s'")
    rule = await add_schedule(crew.dsn, "R3/PT0.2S", "now()", anchor="now() - interval '0.2 s'", repetitions="3")

    shard = await crew.start(None, None, sweep_s=0.1, sweep_grace_s=0.5)
    await crew.until_empty()

    fired = await crew.fired()
    assert await breaches(crew.db, [*keys, rule]) == {}
    assert {row["holder"] for row in fired} == {shard.holder}
    grace = timedelta(seconds=0.5)
    assert all(row["recorded_at"] - row["due_date"] >= grace for row in fired), "theirs who keep the slot, until then"


async def test_a_shard_sweeps_the_slots_of_a_missing_neighbour(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 100, "now() + interval '0.2 s'")

    await crew.start(1, 2, sweep_s=0.1, sweep_grace_s=0.5)
    await crew.until_empty()

    lags = {row["timer_key"]: row["recorded_at"] - row["due_date"] for row in await crew.fired()}
    assert sorted(lags) == keys
    assert all((lag >= timedelta(seconds=0.5)) == (key % 840 % 2 == 0) for key, lag in lags.items())
    assert await breaches(crew.db, keys) == {}


async def test_what_is_leased_by_a_living_holder_is_not_swept(crew: Crew) -> None:
    (held,) = await add_timers(
        crew.dsn, 1, "now() - interval '1 h'", claimed_by="77", claimed_until="now() + interval '15 s'"
    )
    witness = await add_timers(crew.dsn, 1, "now() - interval '1 h'")

    await crew.start(None, None, sweep_s=0.05, sweep_grace_s=0.1)
    await crew.until_fired(1)

    assert [row["timer_key"] for row in await crew.fired()] == witness
    assert await crew.db.fetchval("select timer_key from shardclock.timers") == held
