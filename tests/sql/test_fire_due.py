"""Prove that a fire statement fires no timer early or twice, and writes records and next occurrences in order."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from shardclock_server.sql.firing.fire import Firing
from shardclock_server.sql.session import StatementRefused
from tests.support.factories import HolderClient, add_schedule, add_timers, intents, later, pending_keys, query, value

FIRED = "TRIGGERED"
CANCELED = "CANCELED"
MOVED = "RESCHEDULED"
SKIPPED = "SKIPPED"


# Time


async def test_no_timer_fires_before_its_due_date_however_the_clock_moves(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    assert shard.now
    (key,) = await add_timers(dsn, 1, f"timestamptz '{shard.now + timedelta(seconds=1.5)}'")
    due: datetime = await value(dsn, "select due_date from shardclock.timers")
    held = (await shard.take(fire_overdue=True)).claimed
    assert [timer.timer_key for timer in held] == [key], "within the horizon it is leased, not fired"

    for now in (shard.now, due - timedelta(microseconds=1)):
        shard.now = now
        assert (await shard.fire(held)).timer_keys == frozenset()
    shard.now = due

    assert (await shard.fire(held)).timer_keys == {key}


async def test_the_database_s_clock_decides_if_none_is_given(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    soon, due = await add_timers(dsn, 2, "now() + (i * -20 + 25) * interval '1 minute'")
    shard.now = None

    held = (await shard.take(horizon_s=3600)).claimed

    assert [timer.timer_key for timer in held] == [due, soon]
    assert (await shard.send([Firing(timer) for timer in held])) == {due}


# Schedules


async def test_a_firing_writes_the_schedule_s_next_occurrence_with_its_properties(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    columns = {"payload": "'{\"a\": 1}'", "process_instance_key": "7", "element_instance_key": "8"}
    columns |= {"tenant_id": "'acme'", "timer_type": "'START_EVENT'", "target_element_id": "'start'"}
    key = await add_schedule(dsn, **columns)
    before = dict((await query(dsn, "select * from shardclock.timers"))[0])

    await shard.fire((await shard.take(fire_overdue=True)).claimed)

    after = dict((await query(dsn, "select * from shardclock.timers"))[0])
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"timer_key", "slot", "due_date", "occurrence", "created_at", "period_us"}
    assert after["occurrence"] == 2
    assert after["due_date"] == before["anchor"] + 2 * timedelta(hours=1)
    record = dict((await query(dsn, "select * from shardclock.command_log"))[0])
    assert {name: record[name] for name in record.keys() & before.keys()} == {
        name: before[name] for name in record.keys() & before.keys()
    }
    assert (record["timer_key"], record["intent"], record["holder"]) == (key, FIRED, shard.holder)


async def test_missed_occurrences_are_recorded_with_their_count(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    key = await add_schedule(
        dsn, "R/PT10S", due="now() - interval '95 seconds'", anchor="now() - interval '105 seconds'"
    )

    await shard.fire((await shard.take()).claimed)

    rows = await query(dsn, "select intent, occurrence, detail from shardclock.command_log order by position")
    assert [tuple(row) for row in rows] == [(FIRED, 1, None), (SKIPPED, 2, '{"count": 9, "policy": "fire_once"}')]
    assert await intents(dsn) == {(key, FIRED): 1, (key, SKIPPED): 1}
    assert await value(dsn, "select occurrence from shardclock.timers") == 11


async def test_a_schedules_last_occurrence_has_no_next_occurrence(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    assert shard.now
    await add_schedule(dsn, "R3/PT1H", repetitions="3")
    for _ in range(5):
        await shard.fire((await shard.take()).claimed)
        later(shard, 3600)

    assert await pending_keys(dsn) == []
    rows = await query(dsn, "select intent, occurrence from shardclock.command_log order by position")
    assert [tuple(row) for row in rows] == [(FIRED, 1), (FIRED, 2), (FIRED, 3)]


# Batches


async def test_a_repeated_batch_fires_no_timer_twice_and_creates_no_second_next_occurrence(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    keys = await add_timers(dsn, 5)
    keys.append(await add_schedule(dsn))
    held = (await shard.take()).claimed

    first = await shard.fire(held)
    again = await shard.fire(held)
    twice_in_one = await shard.fire([*held, *held])

    assert first.timer_keys == set(keys)
    assert again.timer_keys == twice_in_one.timer_keys == frozenset()
    assert await intents(dsn) == dict.fromkeys([(key, FIRED) for key in keys], 1)
    assert len(await pending_keys(dsn)) == 1


async def test_a_schedule_that_is_twice_in_one_batch_gets_one_next_occurrence(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    (held,) = (await shard.take()).claimed

    with pytest.raises(StatementRefused, match="timers_by_name"):
        await shard.fire([held, held])

    assert await pending_keys(dsn) == [key]
    assert await intents(dsn) == {}


async def test_in_a_mixed_batch_each_timer_has_its_own_outcome(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, other = shards
    plain, canceled, moved, taken_over, early = await add_timers(dsn, 5)
    await query(dsn, "update shardclock.timers set due_date = now() + interval '1 second' where timer_key = $1", early)
    repeat = await add_schedule(dsn)
    last = await add_schedule(dsn, "R1/PT1H", name="'last'", repetitions="1")
    held = (await shard.take()).claimed
    assert len(held) == 7
    await client.cancel(timer_key=canceled)
    await client.reschedule(timer_key=moved, delay="PT1H")
    await query(dsn, "update shardclock.timers set claimed_by = $1 where timer_key = $2", other.holder, taken_over)

    fired = await shard.fire(held)

    assert fired.timer_keys == {plain, repeat, last}
    ended = {(plain, FIRED): 1, (canceled, CANCELED): 1, (moved, MOVED): 1, (repeat, FIRED): 1, (last, FIRED): 1}
    assert await intents(dsn) == ended
    left = await pending_keys(dsn)
    assert {moved, taken_over, early} < set(left)
    assert len(left) == 4, "and the repeat's next occurrence"


async def test_records_of_one_batch_have_the_order_of_due_dates(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    keys = await add_timers(dsn, 50, "now() - i * interval '1 second'")
    held = (await shard.take()).claimed
    random.Random(1).shuffle(held)

    await shard.fire(held)

    rows = await query(dsn, "select timer_key from shardclock.command_log order by position")
    assert [row["timer_key"] for row in rows] == keys[::-1]
