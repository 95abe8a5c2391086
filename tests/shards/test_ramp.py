"""Timers of an outage fire at the ramp's rate, the oldest first, in equal shares; other timers fire on time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardclock_server.shards.ramp import Ramp
from shardclock_server.shards.scan_planner import ScanPlanner
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.claims.claim import Scan, ScanResult
from shardclock_server.sql.cluster.identity import hold, release
from shardclock_server.sql.cluster.leadership import set_ramp
from shardclock_server.sql.metrics.status import read_status
from shardclock_server.sql.session import Session
from tests.support.factories import HolderClient, add_holder, add_timers, query, value
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.shard_pool import ShardPool
from tests.support.waiting import eventually

OLD = "now() - interval '1 hour' + i * interval '1 ms'"
OUTAGE = Scan("outage", -10.0, 100, floor_s=10.0)
NOTHING = ScanResult(datetime(2026, 1, 1, tzinfo=UTC), 0, lags=(), saturated=False, left_by_outage=0, ramp_per_s=1_000,
                next_tenant="", claimed=[])  # fmt: skip


# The number of timers that a shard may take, tested without a database


def test_no_timer_of_an_outage_is_claimed_before_the_rate_is_known() -> None:
    ramp = Ramp()

    assert ramp.holds_back(100, now_s=5.0)
    assert ramp.room(100, now_s=5.0) == 0


def test_the_ramps_capacity_grows_up_to_one_second_and_shrinks_by_the_claimed_timers() -> None:
    ramp = Ramp()
    ramp.learn(OUTAGE, NOTHING, now_s=5.0)

    assert ramp.holds_back(100, now_s=5.0625)
    assert ramp.room(100, now_s=5.0625) == 62
    assert not ramp.holds_back(100, now_s=60.0)
    assert ramp.room(10_000, now_s=60.0) == 1_000

    ramp.learn(OUTAGE, replace(NOTHING, left_by_outage=990), now_s=60.0)
    assert ramp.holds_back(100, now_s=60.0)
    assert ramp.room(100, now_s=60.0) == 10


def test_after_a_scan_that_exceeds_the_ramps_rate_the_ramp_waits() -> None:
    ramp = Ramp()
    ramp.learn(OUTAGE, NOTHING, now_s=5.0)
    ramp.learn(OUTAGE, replace(NOTHING, left_by_outage=300), now_s=5.0)

    assert [ramp.room(100, now_s=now_s) for now_s in (5.0, 5.25, 5.375)] == [0, 0, 75]
    assert ramp.holds_back(100, now_s=5.375)


def test_with_a_rate_of_zero_no_timer_is_claimed_and_without_a_rate_all_are() -> None:
    stopped, free = Ramp(), Ramp()
    stopped.learn(OUTAGE, replace(NOTHING, ramp_per_s=0), now_s=5.0)
    free.learn(OUTAGE, replace(NOTHING, ramp_per_s=None), now_s=5.0)

    assert stopped.holds_back(100, now_s=1e6)
    assert stopped.room(100, now_s=1e6) == 0
    assert not free.holds_back(100, now_s=1e6)
    assert free.room(100, now_s=1e6) == 100


def test_timers_taken_without_a_rate_are_not_counted_when_a_rate_is_set() -> None:
    ramp = Ramp(per_s=None)
    ramp.learn(OUTAGE, replace(NOTHING, left_by_outage=100_000, ramp_per_s=None), now_s=5.0)

    ramp.learn(OUTAGE, NOTHING, now_s=6.0)

    assert [ramp.room(100, now_s=now_s) for now_s in (6.0, 6.0625, 7.0)] == [0, 62, 100]


@pytest.mark.parametrize("before", [None, 150_000, 2.0])
def test_a_lower_rate_starts_without_a_debt_from_the_scan_that_returned_it(before: float | None) -> None:
    ramp = Ramp()
    ramp.learn(OUTAGE, replace(NOTHING, ramp_per_s=before), now_s=5.0)
    ramp.learn(OUTAGE, replace(NOTHING, ramp_per_s=before, left_by_outage=4_000), now_s=6.0)

    ramp.learn(OUTAGE, replace(NOTHING, ramp_per_s=1.0, left_by_outage=4_000), now_s=7.0)

    assert [ramp.room(100, now_s=now_s) for now_s in (7.0, 7.5, 8.0, 9.0)] == [0, 0, 1, 1]


def test_a_shard_with_a_third_of_a_timer_a_second_claims_one_timer_in_three_seconds() -> None:
    ramp = Ramp()
    ramp.learn(OUTAGE, replace(NOTHING, ramp_per_s=1 / 3), now_s=0.0)

    assert [ramp.room(100, now_s=now_s) for now_s in (1.0, 2.0, 3.0)] == [0, 0, 1]


def test_tenants_get_equal_shares_from_the_first_full_scan_until_a_round_finds_no_more_timers() -> None:
    ramp = Ramp(per_s=None)
    ramp.learn(Scan("own", 2.0, 100), replace(NOTHING, saturated=True, left_by_outage=1, ramp_per_s=None), now_s=0.0)
    assert ramp.holds_back(100, now_s=0.0)

    # If there are many tenants, a round over all tenants needs several scans. If a scan leaves timers, they count until
    # the end of the round.
    for saturated, next_tenant, goes_on in [
        (True, "m", True), (False, "", True), (False, "m", True), (False, "", False)
    ]:  # fmt: skip
        ramp.learn(OUTAGE, replace(NOTHING, saturated=saturated, next_tenant=next_tenant, ramp_per_s=None), now_s=0.0)
        assert (ramp.catching_up, ramp.after_tenant) == (goes_on, next_tenant)


def test_a_burst_that_has_just_fallen_due_is_not_an_outage() -> None:
    ramp = Ramp(per_s=None)

    ramp.learn(Scan("own", 2.0, 100), replace(NOTHING, saturated=True, ramp_per_s=None), now_s=0.0)

    assert not ramp.catching_up


def scans(planner: ScanPlanner, *, now_s: float) -> list[Scan | None]:
    return [planner.begin(planned, now_s=now_s) for planned in planner.scans(held=0, now_s=now_s)]


def test_a_turn_that_the_ramp_holds_back_leaves_the_backlog_to_outage_scans() -> None:
    planner = ScanPlanner(ShardSettings(claim_batch=100, queue_max=1_000), swept_at_s=1_000.0)
    planner.ramp.learn(OUTAGE, replace(NOTHING, ramp_per_s=200), now_s=1_000.0)

    assert scans(planner, now_s=1_000.1) == [
        Scan("own", 2.0, 100, floor_s=10.0),
        Scan("outage", -10.0, 20, floor_s=10.0),
    ]
    assert scans(planner, now_s=1_001.0) == [Scan("own", 2.0, 100), Scan("sweep", -3.0, 100)]
    planner.ramp.catching_up = True
    assert scans(planner, now_s=1_002.0) == [
        Scan("own", 2.0, 100, floor_s=10.0),
        Scan("sweep", -3.0, 100, floor_s=10.0),
        Scan("outage", -10.0, 100, floor_s=10.0),
        Scan("sweep", -10.0, 100),
    ]


# Which timers one scan takes


async def test_a_scan_over_the_backlog_claims_equally_many_timers_of_each_tenant_and_of_the_oldest(dsn: str) -> None:
    await add_holder(dsn, 1)
    flood = await add_timers(dsn, 500, OLD, tenant_id="'flood'")
    await add_timers(dsn, 50, "now() - interval '1 minute'", tenant_id="'small'")
    await add_timers(dsn, 50, "now() - interval '1 minute'", tenant_id="'fresh' || i")
    await add_timers(dsn, 20, "now() - interval '1 second'", tenant_id="'small'")

    async with HolderClient(dsn, holder=1) as shard:
        taken = await shard.take(scope="outage", horizon_s=-10, floor_s=10, batch=530, fire_overdue=True)

    assert 70 <= taken.left_by_outage == taken.fired <= 80
    assert (taken.saturated, taken.next_tenant) == (True, "")
    fired = Counter(row[0] for row in await query(dsn, "select tenant_id from shardclock.command_log"))
    # Ten for each of the 52 tenants, and ten for the oldest timers of any tenant.
    assert 10 <= fired["flood"] <= 20
    assert 10 <= fired["small"] <= 20
    assert {fired[f"fresh{i}"] for i in range(1, 51)} == {1}
    assert await value(dsn, "select min(timer_key) from shardclock.timers where tenant_id = 'flood'") > flood[9]


async def test_a_scan_over_many_tenants_continues_after_the_last_scan(dsn: str) -> None:
    # Each shard has one slot, which is almost empty, so only the limit for tenants applies.
    await add_holder(dsn, 1, part=0, part_count=840)
    await add_timers(dsn, 450, OLD, tenant_id="to_char(i, '\"t\"000')")
    reached: list[str] = []

    async with HolderClient(dsn, holder=1) as shard:
        for _ in range(3):
            taken = await shard.take(
                scope="outage",
                horizon_s=-10,
                floor_s=10,
                batch=4200,
                fire_overdue=True,
                after_tenant="".join(reached[-1:]),
            )
            reached.append(taken.next_tenant)

    assert reached[2] == ""
    assert reached[:2] == sorted(reached[:2])
    assert await value(dsn, "select count(*) from shardclock.timers") == 0


async def test_a_timer_found_by_its_tenant_and_as_the_oldest_counts_once(dsn: str) -> None:
    await add_holder(dsn, 1)
    await add_timers(dsn, 10, OLD, tenant_id="'only'")

    async with HolderClient(dsn, holder=1) as shard:
        taken = await shard.take(scope="outage", horizon_s=-10, floor_s=10, batch=100, fire_overdue=True)

    assert (taken.fired, taken.left_by_outage) == (10, 10)


async def test_a_small_outage_scan_takes_no_more_than_its_batch(dsn: str) -> None:
    await add_holder(dsn, 1)
    await add_timers(dsn, 2_000, OLD, tenant_id="(array['default', 'a', 'b'])[i % 3 + 1]")

    async with HolderClient(dsn, holder=1) as shard:
        for batch in (1, 2, 7, 100):
            taken = await shard.take(scope="outage", horizon_s=-10, floor_s=10, batch=batch, fire_overdue=True)
            assert 1 <= taken.fired <= batch + 1, "one for each tenant at least, and one for the oldest"


async def test_a_scan_with_a_lower_bound_takes_no_timers_of_an_outage(dsn: str) -> None:
    await add_holder(dsn, 1)
    await add_timers(dsn, 5, OLD)
    fresh = await add_timers(dsn, 3, "now() - interval '1 second'")

    async with HolderClient(dsn, holder=1) as shard:
        taken = await shard.take(floor_s=10, fire_overdue=True)

    assert (taken.fired, taken.left_by_outage) == (3, 0)
    rows = await query(dsn, "select timer_key from shardclock.command_log order by 1")
    assert [row[0] for row in rows] == fresh


# Running shards


async def test_a_shard_without_slots_has_no_larger_share_of_the_ramp(dsn: str) -> None:
    for holder, part, count in ((1, 0, 2), (2, 1, 2), (3, None, None), (4, None, None)):
        await add_holder(dsn, holder, part, count)
    async with Session(dsn, application="test") as operator:
        await set_ramp(operator, 100)

    async with HolderClient(dsn, holder=1) as shard, HolderClient(dsn, holder=3) as stand_by:
        assert (await shard.take()).ramp_per_s == 50
        assert (await stand_by.take()).ramp_per_s == 25

        async with Session(dsn, application="test") as operator:
            await set_ramp(operator, 1)
        assert (await shard.take()).ramp_per_s == 0.5


@pytest.mark.slow
async def test_an_outage_is_caught_up_with_at_the_rate_that_an_operator_sets(pool: ShardPool) -> None:
    await add_timers(pool.dsn, 3_000, OLD)
    async with Session(pool.dsn, application="test") as operator:
        assert await set_ramp(operator, 0) == (150_000, 0)
        await pool.start(0, 2)
        await pool.start(1, 2)
        on_time = await add_timers(pool.dsn, 50, "now() + i * interval '10 ms'")
        await pool.until_fired(50)

        status = await read_status(operator)
        assert (status.left_by_outage, status.ramp_per_s, status.caught_up_in_s) == (3_000, 0, None)
        lags = await query(
            pool.dsn,
            "select max(recorded_at - due_date) from shardclock.command_log where timer_key = any ($1)",
            on_time,
        )
        assert lags[0][0].total_seconds() < 1.0

        await set_ramp(operator, 1_000)
        await eventually(lambda: _at_least(pool, 550))
        status = await read_status(operator)
        assert status.caught_up_in_s == status.left_by_outage / 1_000
        await pool.until_fired(3_050)
    spans = await query(
        pool.dsn,
        "select extract(epoch from max(recorded_at) - min(recorded_at)) from shardclock.command_log"
        " where due_date < now() - interval '30 minutes'",
    )
    # 3,000 timers at 1,000 a second; the first 1,000 may fire together, so the other 2,000 take at least 2 s.
    assert spans[0][0] > 1.8


@pytest.mark.slow
async def test_a_tenant_with_few_timers_does_not_wait_for_a_tenant_with_many(pool: ShardPool) -> None:
    await add_timers(pool.dsn, 20_000, OLD, tenant_id="'flood'")
    few = await add_timers(pool.dsn, 20, "now() - interval '20 s'", tenant_id="'few'")
    async with Session(pool.dsn, application="test") as operator:
        await set_ramp(operator, 4_000)

    await pool.start(0, 1)
    await pool.until_fired(20_000)
    await pool.until_empty()

    ahead = await value(
        pool.dsn,
        "select count(*) from shardclock.command_log where tenant_id = 'flood' and position <"
        " (select max(position) from shardclock.command_log where timer_key = any ($1))",
        few,
    )
    assert ahead < 4_000


@pytest.mark.slow
async def test_a_ramp_that_is_set_during_a_hold_applies_from_the_release(pool: ShardPool) -> None:
    shard = await pool.start(0, 1)
    await eventually(lambda: _knows(shard, 150_000))
    async with Session(pool.dsn, application="test") as operator:
        await hold(operator, "test")
        await eventually(lambda: _knows(shard, 0))
        await add_timers(pool.dsn, 2_000, OLD)
        await set_ramp(operator, 4)

        await release(operator, "")
        await pool.until_fired(6)

    assert await pool.count_fired() < 50


async def _knows(shard: Shard, per_s: float) -> bool:
    return shard._planner.ramp.per_s == per_s


@pytest.mark.slow
async def test_the_start_of_a_job_does_not_wait_for_a_backlog_of_older_timers(pool: ShardPool) -> None:
    await declare(pool.dsn, job_spec(every_s=60.0))
    await query(
        pool.dsn, "update shardclock.timers set due_date = now() - interval '20 s' where target = 'job:refresh'"
    )
    await add_timers(pool.dsn, 20_000, OLD)
    async with Session(pool.dsn, application="test") as operator:
        await set_ramp(operator, 4_000)

    await pool.start(0, 1)
    await pool.until_fired(20_001)

    ahead = await value(
        pool.dsn,
        "select count(*) from shardclock.command_log where target = 'log' and position <"
        " (select min(position) from shardclock.command_log where target = 'job:refresh' and intent = 'TRIGGERED')",
    )
    assert ahead < 4_000


async def _at_least(pool: ShardPool, count: int) -> bool:
    return await pool.count_fired() >= count
