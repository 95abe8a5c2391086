"""A shard's timers are not delayed by locks of clients, late commits, or starts of jobs in the far future."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from shardclock_server.shards.locked import RETRY_S
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.timers.model import SLOTS
from tests.support.factories import add_holder, add_timers, query, value
from tests.support.plans import prepare, taking
from tests.support.roles import as_role
from tests.support.shard_pool import ShardPool, incarnation
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


FLOOD = "select count(*) from shardclock.timers where tenant_id = 'herd'"
LATE = "insert into shardclock.timers (due_date) values (now() - interval '0.5 s') returning timer_key"
FIRED = "select exists (select from shardclock.command_log where timer_key = $1)"


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[Shard]:
    """Yield the only shard; the test calls its turns, and each claim takes two overdue timers of each slot."""
    settings = ShardSettings(
        claim_batch=2 * SLOTS, queue_max=2 * SLOTS, poll_s=1e-6, sweep_s=3_600.0, horizon_s=30.0, lease_s=60.0
    )
    one = Shard(incarnation(), settings, as_role(dsn, "shard"))
    await add_holder(dsn, one.holder, 0, 1)
    await one.beat_turn()
    yield one
    await one._hand_back()


@pytest.mark.parametrize("committed_after", [1, 2])
async def test_a_timer_that_commits_half_a_second_late_fires_within_two_turns_during_another_tenants_flood(
    dsn: str, client: asyncpg.Connection, shard: Shard, committed_after: int
) -> None:
    await add_timers(dsn, 30 * SLOTS, "now() - interval '2 s'", tenant_id="'herd'")
    await shard.claim_turn()
    transaction = client.transaction()
    await transaction.start()
    late = await client.fetchval(LATE)
    for _ in range(committed_after):
        await shard.claim_turn()
    await transaction.commit()

    for _ in range(2):
        await shard.claim_turn()

    assert await client.fetchval(FIRED, late)
    assert await client.fetchval(FLOOD) >= 10 * SLOTS


async def test_a_timer_fires_within_two_turns_even_if_another_tenants_timers_fill_the_queue(
    dsn: str, client: asyncpg.Connection, shard: Shard
) -> None:
    await add_timers(dsn, 4 * SLOTS, "now() + interval '20 s'", tenant_id="'herd'")
    await shard.claim_turn()
    await add_timers(dsn, 30 * SLOTS, "now() - interval '2 s'", tenant_id="'herd'")
    while len(shard) < 3 * SLOTS:
        await shard.claim_turn()
    late = await client.fetchval(LATE)

    for _ in range(2):
        await shard.claim_turn()

    assert await client.fetchval(FIRED, late)
    assert await client.fetchval(FLOOD) >= 10 * SLOTS


JOBS, SOON = 10_000, 5
# Even on a slow machine, no timer may become due during the test, because the shard would fire it.
DUE_S, HORIZON_S = 60, 120


@pytest.fixture
async def many(dsn: str) -> str:
    """Return the DSN of a database with many jobs: some start within a shard's horizon, all others much later."""
    await query(
        dsn,
        "insert into shardclock.jobs (name, function, every_s) select 'job' || n, 'app:f', 3600"
        " from generate_series(1, $1) n",
        JOBS,
    )
    await query(
        dsn,
        "insert into shardclock.timers (due_date, target, name)"
        " select now() + case when n <= $2 then $3 * interval '1 s' else interval '1 hour' end, 'job:job' || n,"
        " 'job:job' || n"
        " from generate_series(1, $1) n",
        JOBS,
        SOON,
        DUE_S,
    )
    return dsn


async def test_a_shard_holds_only_the_starts_within_its_horizon(many: str) -> None:
    shard = Shard(incarnation(), ShardSettings(horizon_s=HORIZON_S, lease_s=2 * HORIZON_S), as_role(many, "shard"))
    await add_holder(many, shard.holder, 0, 1)
    await shard.beat_turn()

    for _ in range(3):
        await shard.claim_turn()

    assert len(shard) == SOON
    assert await value(many, "select count(*) from shardclock.timers where claimed_by is not null") == SOON
    await shard._hand_back()


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_claim_of_a_shard_reads_the_starts_within_its_horizon(many: str, *, analyzed: bool) -> None:
    if analyzed:
        await query(many, "analyze shardclock.timers, shardclock.jobs")
    await add_holder(many, 1, 0, 1)
    claim = await prepare(many, "claim_due")

    within_horizon = taking(1, horizon=f"{HORIZON_S} s")
    timers = await claim.explain(*within_horizon, touched=True)
    jobs = await claim.explain(*within_horizon, touched=True, table="jobs")
    await claim.connection.close()

    # The claim searches, locks and leases each timer, and may read one further timer in each slot.
    assert SOON <= timers.rows <= 4 * SOON + SLOTS
    assert jobs.rows == 0
