"""A shard that dies, freezes or is declared dead loses no timer, and nobody fires one twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shards.pulse import HolderEnded
from tests.crew import Crew, crew_of
from tests.shard_process import HOLDER_ENDED, ShardProcess, shard_process
from tests.store import BOUND_S, add_schedule, add_timers
from tests.verdict import breaches
from tests.waiting import eventually


@pytest.fixture
async def crew(dsn: str) -> AsyncIterator[Crew]:
    """Give a crew on Postgres 18."""
    async with crew_of(dsn) as one:
        yield one


async def until_claimed(crew: Crew, process: ShardProcess, count: int) -> None:
    """Wait until a process has said that it holds so many timers in memory."""

    async def claimed() -> bool:
        held = await crew.db.fetchval("select held from shardclock.holders where holder = $1", process.holder)
        return int(held) >= count

    await eventually(claimed)


@pytest.mark.slow
async def test_the_timers_of_a_killed_shard_are_free_as_soon_as_its_holder_is_ended(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 300, "now() + interval '2 s'")
    async with shard_process(crew.dsn, horizon_s=10.0, lease_s=600.0, heartbeat_s=0.1) as killed:
        await until_claimed(crew, killed, 300)
        killed.kill()
    heir = await crew.start(horizon_s=10.0, lease_s=600.0)
    await crew.end(killed.holder)
    await crew.until_empty()

    assert heir.tally.fired == len(keys)
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_the_timers_of_a_killed_shard_are_free_when_its_lease_runs_out_and_no_sooner(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 300, "now() + interval '0.8 s'")
    async with shard_process(crew.dsn, horizon_s=10.0, lease_s=2.0, heartbeat_s=0.1) as killed:
        await until_claimed(crew, killed, 300)
        killed.kill()
    lease_ends = await crew.db.fetchval("select min(claimed_until) from shardclock.timers")

    await crew.start(lease_s=2.0)
    await crew.until_empty()

    fired = await crew.fired()
    assert sorted(row["timer_key"] for row in fired) == keys
    assert all(row["recorded_at"] >= lease_ends for row in fired), "nobody had said that its holder was dead"
    assert max(row["recorded_at"] for row in fired) - lease_ends < timedelta(seconds=2)
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_a_shard_killed_while_it_fires_has_fired_each_timer_or_not(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 20_000, "now() + interval '1.5 s' + i * interval '0.05 ms'")
    async with shard_process(crew.dsn, horizon_s=10.0, lease_s=60.0, queue_max=30_000, fire_batch=100) as killed:
        await crew.until_fired(1_000)
        killed.kill()
    assert await crew.count_fired() < len(keys), "it was killed in the middle of its work"

    await crew.end(killed.holder)
    heir = await crew.start()
    await crew.until_empty()

    assert heir.tally.fired > 0
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_a_shard_that_was_frozen_while_others_took_over_fires_nothing_twice_and_stops(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 300, "now() + interval '1.5 s'")
    keys.append(await add_schedule(crew.dsn, "R/PT1H", "now() + interval '1.5 s'"))
    async with shard_process(crew.dsn, horizon_s=10.0, lease_s=60.0, heartbeat_s=0.1) as frozen:
        await until_claimed(crew, frozen, 301)
        frozen.freeze()
        await crew.end(frozen.holder)
        heir = await crew.start()
        await crew.until_fired(301)

        frozen.thaw()
        status, tally = await frozen.ended()

    assert status == HOLDER_ENDED
    assert (tally["claimed"], tally["fired"]) == (301, 0)
    assert heir.tally.fired == len(keys)
    assert await crew.count_fired() == len(keys)
    assert await crew.db.fetchval("select array_agg(occurrence) from shardclock.timers") == [2]
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_a_shard_frozen_past_its_lease_though_nobody_ended_it_fires_nothing_twice(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 300, "now() + interval '1.2 s'")
    async with shard_process(crew.dsn, lease_s=2.0, horizon_s=1.5, heartbeat_s=0.1) as frozen:

        async def is_empty_handed() -> bool:
            """Tell whether the frozen one is back, has tried to fire what it held, and let go of it."""
            text = "select held = 0 and seen_at > $2 from shardclock.holders where holder = $1"
            return bool(await crew.db.fetchval(text, frozen.holder, thawed_at))

        await until_claimed(crew, frozen, 300)
        frozen.freeze()
        heir = await crew.start(lease_s=2.0)
        await crew.until_fired(300)
        more = await add_timers(crew.dsn, 10, "now() + interval '0.3 s'")
        await crew.until_held(heir, 10)

        thawed_at = await crew.db.fetchval("select now()")
        frozen.thaw()
        await crew.until_empty()
        await eventually(is_empty_handed)

    assert {row["holder"] for row in await crew.fired()} == {heir.holder}
    assert await breaches(crew.db, keys + more) == {}


async def test_a_living_shard_whose_holder_is_ended_stops_and_says_so(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 100, "now() + interval '0.5 s' + i * interval '10 ms'")
    ended = await crew.start(heartbeat_s=0.1, lease_s=60.0)
    await crew.until_held(ended, 100)

    await crew.end(ended.holder)
    work = crew.work.pop(ended)
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(HolderEnded):
            await work

    await crew.start()
    await crew.until_empty()
    assert await breaches(crew.db, keys) == {}
    assert await crew.db.fetchval("select ended_why from shardclock.holders where holder = $1", ended.holder) == "test"


async def test_a_shard_whose_task_is_cancelled_hands_back_like_one_that_drained(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 1_000, "now() + interval '1 s'")
    cancelled = await crew.start(lease_s=600.0)
    await crew.until_held(cancelled, 1_000)

    work = crew.work.pop(cancelled)
    work.cancel()
    async with asyncio.timeout(1.5):
        await asyncio.gather(work, return_exceptions=True)
    assert work.cancelled()
    heir = await crew.start()
    await crew.until_empty()

    assert heir.tally.fired == len(keys)
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_assignments_that_change_under_load_lose_and_double_nothing(crew: Crew) -> None:
    shards = [await crew.start(place, 2) if place < 2 else await crew.start(None, None) for place in range(7)]
    keys: list[int] = []

    for count in (2, 7, 3, 1, 5):
        await crew.assign({shard: (place, count) if place < count else None for place, shard in enumerate(shards)})
        for _ in range(5):  # a paced load: each step waits until most of the last one has fired
            keys += await add_timers(crew.dsn, 100, "now() + (i % 50) * interval '10 ms'")
            await crew.until_fired(len(keys) - 150)
    await crew.until_empty()

    assert await crew.count_fired() == len(keys)
    assert await breaches(crew.db, keys) == {}
    assert sum(shard.tally.fired for shard in shards) == len(keys)
    assert all(shard.tally.fired for shard in shards), "each had its part"
    lags = [row["recorded_at"] - row["due_date"] for row in await crew.fired()]
    assert max(lags) < timedelta(seconds=3), "none waited for the sweep"
