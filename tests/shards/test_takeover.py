"""If a shard dies, freezes or is declared dead, no timer is lost, and the shard's locks are soon released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from chaos.proxy import Proxy
from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.cluster.holders import cut_off
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import BOUND_S, add_holder, add_schedule, add_timers, query
from tests.support.separate_keeper import HOLDER_ENDED
from tests.support.shard_pool import ShardPool
from tests.support.shard_process import ShardProcess, shard_process
from tests.support.verdict import breaches
from tests.support.waiting import eventually


async def until_claimed(pool: ShardPool, process: ShardProcess, count: int) -> None:
    """Wait until a shard's process has reported this number of timers in its memory."""

    async def claimed() -> bool:
        held = await pool.db.fetchval("select held from shardclock.beats where holder = $1", process.holder)
        return held is not None and int(held) >= count

    await eventually(claimed)


async def until_up(pool: ShardPool, process: ShardProcess) -> None:
    """Wait for a process's first heartbeat, so that its start does not delay timers that are due soon."""
    await until_claimed(pool, process, 0)


@pytest.mark.slow
async def test_the_timers_of_a_killed_shard_are_free_as_soon_as_its_holder_is_ended(pool: ShardPool) -> None:
    async with shard_process(pool.dsn, horizon_s=10.0, lease_s=600.0, heartbeat_s=0.1) as killed:
        await until_up(pool, killed)
        keys = await add_timers(pool.dsn, 300, "now() + interval '4 s'")
        await until_claimed(pool, killed, 300)
        killed.kill()
    replacement = await pool.start(horizon_s=10.0, lease_s=600.0)
    await pool.end(killed.holder)
    await pool.until_empty()
    await pool.until_told(len(keys), replacement)

    assert replacement.stats.fired == len(keys)
    assert await breaches(pool.db, keys) == {}


@pytest.mark.slow
async def test_the_timers_of_a_killed_shard_are_free_exactly_when_its_lease_ends(pool: ShardPool) -> None:
    async with shard_process(pool.dsn, horizon_s=10.0, lease_s=4.0, heartbeat_s=0.1) as killed:
        await until_up(pool, killed)
        keys = await add_timers(pool.dsn, 300, "now() + interval '3 s'")
        await until_claimed(pool, killed, 300)
        killed.kill()
    lease_ends = await pool.db.fetchval("select min(claimed_until) from shardclock.timers")

    await pool.start(lease_s=4.0)
    await pool.until_empty()

    fired = await pool.fired()
    assert sorted(row["timer_key"] for row in fired) == keys
    assert all(row["recorded_at"] >= lease_ends for row in fired), "its holder was not declared dead"
    assert max(row["recorded_at"] for row in fired) - lease_ends < timedelta(seconds=2)
    assert await breaches(pool.db, keys) == {}


@pytest.mark.slow
async def test_a_shard_killed_during_a_firing_has_fired_each_timer_once_or_not_at_all(pool: ShardPool) -> None:
    keys = await add_timers(pool.dsn, 20_000, "now() + interval '1.5 s' + i * interval '0.05 ms'")
    async with shard_process(pool.dsn, horizon_s=10.0, lease_s=60.0, queue_max=30_000, fire_batch=100) as killed:
        await pool.until_fired(1_000)
        killed.kill()
    assert await pool.count_fired() < len(keys), "it was killed in the middle of its work"

    await pool.end(killed.holder)
    replacement = await pool.start()
    await pool.until_empty()
    await pool.until_told(1, replacement)

    assert await breaches(pool.db, keys) == {}


@pytest.mark.slow
async def test_a_frozen_shard_stops_after_its_takeover_and_fires_no_timer_twice(pool: ShardPool) -> None:
    async with shard_process(pool.dsn, horizon_s=10.0, lease_s=60.0, heartbeat_s=0.1) as frozen:
        await until_up(pool, frozen)
        keys = await add_timers(pool.dsn, 300, "now() + interval '8 s'")
        keys.append(await add_schedule(pool.dsn, "R/PT1H", "now() + interval '8 s'"))
        await until_claimed(pool, frozen, 301)
        frozen.freeze()
        await pool.end(frozen.holder)
        replacement = await pool.start()
        await pool.until_fired(301)

        frozen.thaw()
        status, stats = await frozen.ended()

    assert status == HOLDER_ENDED
    assert (stats["claimed"], stats["fired"]) == (301, 0)
    assert replacement.stats.fired == len(keys)
    assert await pool.count_fired() == len(keys)
    assert await pool.db.fetchval("select array_agg(occurrence) from shardclock.timers") == [2]
    assert await breaches(pool.db, keys) == {}


async def test_a_live_shard_with_an_ended_holder_stops_and_reports_this(pool: ShardPool) -> None:
    ended = await pool.start(heartbeat_s=0.1, lease_s=60.0)
    keys = await pool.lease(ended, 100, "now() + interval '0.5 s' + i * interval '10 ms'")

    await pool.end(ended.holder)
    work = pool.work.pop(ended)
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(HolderEnded):
            await work

    await pool.start()
    await pool.until_empty()
    assert await breaches(pool.db, keys) == {}
    assert await pool.db.fetchval("select ended_why from shardclock.holders where holder = $1", ended.holder) == "test"


async def test_a_shard_with_a_cancelled_task_releases_its_timers_like_after_a_drain(pool: ShardPool) -> None:
    cancelled = await pool.start(lease_s=600.0)
    keys = await pool.lease(cancelled, 1_000, "now() + interval '1 s'")

    work = pool.work.pop(cancelled)
    work.cancel()
    async with asyncio.timeout(1.5):
        await asyncio.gather(work, return_exceptions=True)
    assert work.cancelled()
    replacement = await pool.start()
    await pool.until_empty()
    await pool.until_told(len(keys), replacement)

    assert replacement.stats.fired == len(keys)
    assert await breaches(pool.db, keys) == {}


@pytest.mark.exhaustive
async def test_changes_of_assignments_under_load_lose_and_duplicate_no_timer(pool: ShardPool) -> None:
    shards = [await pool.start(place, 2) if place < 2 else await pool.start(None, None) for place in range(7)]
    keys: list[int] = []

    for count in (2, 7, 3, 1, 5):
        await pool.assign({shard: (place, count) if place < count else None for place, shard in enumerate(shards)})
        for _ in range(5):  # a paced load: each step waits until most timers of the last step have fired
            keys += await add_timers(pool.dsn, 100, "now() + (i % 50) * interval '10 ms'")
            await pool.until_fired(len(keys) - 150)
    await pool.until_empty()

    assert await pool.count_fired() == len(keys)
    assert await breaches(pool.db, keys) == {}
    assert sum(shard.stats.fired for shard in shards) == len(keys)
    assert all(shard.stats.fired for shard in shards), "each had its part"
    lags = [row["recorded_at"] - row["due_date"] for row in await pool.fired()]
    assert max(lags) < timedelta(seconds=3), "none waited for the sweep"


HOLDER, OTHER = 0x5AFE, 0xBEEF
FREE = "select timer_key from shardclock.timers for update skip locked"
HELD = """
select from pg_stat_activity
where datname = current_database() and backend_xid is not null and wait_event = 'ClientRead'
"""
SESSIONS = (
    "select application_name as name from pg_stat_activity"
    " where datname = current_database() and application_name like 'shardclock shard %'"
)


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    proxy = Proxy.before(dsn)
    await proxy.start()
    yield proxy
    await proxy.close()


async def _half_sent(dsn: str, proxy: Proxy, session: Session) -> asyncio.Task[object]:
    """Claim ten timers, and freeze the claim's process before it has sent its whole message to Postgres."""
    await add_holder(dsn, HOLDER)
    await add_timers(dsn, 10)
    await session.rows("read_clock")
    trap = proxy.trap(lambda _: True, "claim_due", "inside", spring=lambda _: None)
    task = asyncio.ensure_future(claim_due(session, HOLDER, Scan("own", 0, 100), lease_s=10))
    await trap.caught
    # The locks are checked only after the claim, because the check locks the rows, and a claim skips locked rows.
    await eventually(lambda: _is_held(dsn))
    assert await _are_free(dsn, 0)
    return task


async def _is_held(dsn: str) -> bool:
    return len(await query(dsn, HELD)) == 1


async def _are_free(dsn: str, timers: int) -> bool:
    return len(await query(dsn, FREE)) == timers


async def _has_sessions(dsn: str, names: list[str]) -> bool:
    return sorted(row["name"] for row in await query(dsn, SESSIONS)) == sorted(names)


async def test_rows_that_an_incomplete_message_has_locked_are_free_after_the_timeout_of_its_statement(
    dsn: str, proxy: Proxy
) -> None:
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"
    async with Session(through, application="test", timeout_s=2.0) as session:
        # The client stops waiting without a message to the server.
        task = await _half_sent(dsn, proxy, session)
        with pytest.raises(StoreUnavailable):
            await task

        await eventually(lambda: _are_free(dsn, 10), within_s=5.0)


async def test_cutting_a_holder_off_frees_its_locks_immediately_and_ends_no_session_of_another_holder(
    dsn: str, proxy: Proxy
) -> None:
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"
    names = [
        f"shardclock shard {use} {holder:016x}" for holder in (HOLDER, OTHER) for use in ("claims", "fires", "beats")
    ]
    async with AsyncExitStack() as stack:
        first, *others = [
            await stack.enter_async_context(Session(through, application=name, timeout_s=BOUND_S)) for name in names
        ]
        for other in others:
            await other.rows("read_clock")
        task = await _half_sent(dsn, proxy, first)

        async with Session(dsn, application="test") as coordinator:
            assert await cut_off(coordinator, [HOLDER]) == 2

        await eventually(lambda: _are_free(dsn, 10), within_s=BOUND_S / 3)
        await eventually(lambda: _has_sessions(dsn, names[2:]))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
