"""A timer that a client has locked delays no other timer, and a shard with hanging claims keeps its heartbeats."""

from __future__ import annotations

import time
from datetime import timedelta

import asyncpg
import pytest

from shardclock_server.shards.locked import RETRY_S
from tests.support.factories import add_timers
from tests.support.shard_pool import ShardPool
from tests.support.verdict import breaches
from tests.support.waiting import eventually


@pytest.mark.parametrize("outcome", ["rollback", "commit"])
async def test_a_client_that_locks_a_due_timer_delays_no_other_timer(
    pool: ShardPool, client: asyncpg.Connection, fire_calls: list[int], outcome: str
) -> None:
    shard = await pool.start(lease_s=600.0)
    keys = await pool.lease(shard, 100, "now() + interval '0.5 s'")
    transaction = client.transaction()
    await transaction.start()
    await client.execute("select shardclock.cancel_timer($1)", keys[0])

    # Then all other timers fire; the shard tries the locked timer again from time to time.
    await pool.until_fired(99)
    others = await pool.fired()
    assert max(row["recorded_at"] - row["due_date"] for row in others) < timedelta(seconds=1)
    assert keys[0] not in {row["timer_key"] for row in others}
    await eventually(lambda: shard.stats.locked >= 1)
    tried_before, started = len(fire_calls), time.monotonic()
    await eventually(lambda: len(fire_calls) >= tried_before + 8)
    assert time.monotonic() - started >= 7 * RETRY_S

    if outcome == "rollback":
        await transaction.rollback()
        await pool.until_fired(100)
    else:
        await transaction.commit()
        await eventually(lambda: shard.stats.fenced == 1)
    assert len(shard) == 0
    assert await pool.count_fired() == (100 if outcome == "rollback" else 99)
    assert await breaches(pool.db, keys) == {}


async def test_a_client_that_locks_an_overdue_timer_delays_no_other_timer(
    pool: ShardPool, client: asyncpg.Connection
) -> None:
    keys = await add_timers(pool.dsn, 100)
    transaction = client.transaction()
    await transaction.start()
    await client.execute("select shardclock.reschedule_timer($1, delay => 'PT0.2S')", keys[0])

    await pool.start()
    await pool.until_fired(99)
    await transaction.commit()
    await pool.until_fired(100)

    assert (await pool.fired())[-1]["timer_key"] == keys[0]
    assert await breaches(pool.db, keys) == {}


HANGS = (
    "select query_start from pg_stat_activity where datname = current_database()"
    " and application_name like 'shardclock shard claims%' and wait_event_type = 'Lock'"
)


async def test_a_shard_with_hanging_claims_sends_heartbeats(pool: ShardPool, client: asyncpg.Connection) -> None:
    shard = await pool.start()
    transaction = client.transaction()
    await transaction.start()
    await client.execute("lock table shardclock.timers in access exclusive mode")

    async def hangs() -> bool:
        return await pool.db.fetchval(HANGS) is not None

    async def is_heard() -> bool:
        text = "select seen_at > $2::timestamptz + interval '1.5 s' from shardclock.beats where holder = $1"
        return bool(await pool.db.fetchval(text, shard.holder, since))

    await eventually(hangs)
    since = await pool.db.fetchval(HANGS)
    await eventually(is_heard)

    assert await pool.db.fetchval(HANGS) == since, "all that while one claim waited"
    await transaction.rollback()
