"""Prove that jobs which are not due soon cost a shard nothing: it reads only timers of its horizon."""

from __future__ import annotations

import pytest

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.timers.model import SLOTS
from tests.support.factories import add_holder, query, value
from tests.support.plans import prepare, taking
from tests.support.roles import as_role
from tests.support.shard_pool import incarnation

JOBS, SOON = 10_000, 5
# No timer becomes due during a test, also on a slow machine: overdue timers would be fired, not kept.
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


async def test_a_shard_holds_the_starts_within_its_horizon_and_none_of_the_others(many: str) -> None:
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

    # The claim finds, locks and leases each timer; in each slot it may read one more timer.
    assert SOON <= timers.rows <= 4 * SOON + SLOTS
    assert jobs.rows == 0
