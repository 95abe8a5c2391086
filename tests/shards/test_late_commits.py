"""A timer that commits long after its due date does not wait behind another tenant's flood."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.timers.model import SLOTS
from tests.support.factories import add_holder, add_timers
from tests.support.roles import as_role
from tests.support.shard_pool import incarnation

FLOOD = "select count(*) from shardclock.timers where tenant_id = 'herd'"
LATE = "insert into shardclock.timers (due_date) values (now() - interval '0.5 s') returning timer_key"
FIRED = "select exists (select from shardclock.command_log where timer_key = $1)"


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[Shard]:
    """Yield the only shard, whose turns the test calls; each claim takes two overdue timers of each slot."""
    settings = ShardSettings(
        claim_batch=2 * SLOTS, queue_max=2 * SLOTS, poll_s=1e-6, sweep_s=3_600.0, horizon_s=30.0, lease_s=60.0
    )
    one = Shard(incarnation(), settings, as_role(dsn, "shard"))
    await add_holder(dsn, one.holder, 0, 1)
    await one.beat_turn()
    yield one
    await one._hand_back()


@pytest.mark.parametrize("committed_after", [1, 2])
async def test_a_timer_that_commits_half_a_second_late_fires_within_two_turns_beside_another_tenants_flood(
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


async def test_a_timer_fires_within_two_turns_also_if_another_tenants_timers_fill_the_queue(
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
