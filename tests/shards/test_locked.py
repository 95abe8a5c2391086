"""A shard retries one locked timer for each transaction with locks; locked timers delay no other timer."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime

import asyncpg
import pytest

from shardclock_server.shards.locked import RETRY_S, TRIES_PER_S, LockedRetry, LockedTimers
from shardclock_server.shards.queue import TimerQueue
from shardclock_server.sql.claims.claim import LeasedRow, still_leased
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import HolderClient, add_holder, add_schedule, add_timers, intents, value
from tests.support.shard_pool import ShardPool
from tests.support.waiting import eventually

NOW_S = 5_000.0
LEASE_S = 10.0


@pytest.fixture
def locked() -> LockedTimers:
    return LockedTimers(lease_s=LEASE_S, timers_max=10)


def timer(timer_key: int) -> ClaimedTimer:
    due_date = datetime(2026, 1, 1, tzinfo=UTC)
    return ClaimedTimer(
        timer_key, due_date, None, "UTC", "fire_once", None, None, 0, 1, 1, False, None, version=7, request_number=1
    )


def by(locker: str, timer_keys: Iterable[int]) -> list[LeasedRow]:
    return [LeasedRow(timer(key), locker) for key in timer_keys]


def keys(timers: Iterable[ClaimedTimer]) -> list[int]:
    return [each.timer_key for each in timers]


def tried(retry: LockedRetry) -> tuple[list[int], list[int]]:
    return keys(retry.now), keys(retry.later)


def test_one_of_the_timers_that_a_transaction_has_locked_is_retried(locked: LockedTimers) -> None:
    retry = locked.learn(range(9), by("700", range(3, 9)), now_s=NOW_S)

    assert (tried(retry), retry.later_s) == (([], [3]), RETRY_S)
    assert len(locked) == 5, "the one that is tried waits in the queue"


def test_a_timer_that_is_found_locked_later_waits_for_the_same_retried_timer(locked: LockedTimers) -> None:
    locked.learn([1, 2], by("700", [1, 2]), now_s=NOW_S)

    assert tried(locked.learn([3, 4], by("700", [3, 4]), now_s=NOW_S)) == ([], [1])
    assert len(locked) == 3


@pytest.mark.parametrize("found", [[], by("701", [1])], ids=["free", "locked by another"])
def test_when_the_retried_timer_is_free_the_other_timers_are_retried_too(
    locked: LockedTimers, found: list[LeasedRow]
) -> None:
    locked.learn([1, 2, 3], by("700", [1, 2, 3]), now_s=NOW_S)

    retry = locked.learn([1], found, now_s=NOW_S + 1)

    assert tried(retry) == ([2, 3], keys(held.timer for held in found))
    assert len(locked) == 0


def test_while_the_retried_timer_is_locked_the_other_timers_wait(locked: LockedTimers) -> None:
    locked.learn([1, 2], by("700", [1, 2]), now_s=NOW_S)

    for second in range(9):
        assert tried(locked.learn([1], by("700", [1]), now_s=NOW_S + second)) == ([], [1])


def test_each_locking_transaction_is_checked_and_many_are_checked_more_rarely(locked: LockedTimers) -> None:
    retry = locked.learn([1, 2, 3, 4], [*by("700", [1, 2]), *by("701", [3, 4])], now_s=NOW_S)
    assert tried(retry) == ([], [1, 3])

    many = LockedTimers(lease_s=LEASE_S, timers_max=10_000)
    retry = many.learn(range(2_000), [LeasedRow(timer(key), str(key)) for key in range(2_000)], now_s=NOW_S)
    assert retry.later_s == 2_000 / TRIES_PER_S


def test_a_timer_that_is_locked_for_longer_than_a_lease_is_forgotten(locked: LockedTimers) -> None:
    """The timer's lease has ended, so the next claim finds the timer when its row is unlocked."""
    locked.learn([1, 2], by("700", [1, 2]), now_s=NOW_S)
    locked.learn([3], by("700", [3]), now_s=NOW_S + 5)

    assert tried(locked.learn([1], by("700", [1]), now_s=NOW_S + LEASE_S)) == ([], [3])
    assert tried(locked.learn([3], by("700", [3]), now_s=NOW_S + LEASE_S + 5)) == ([], [])
    assert len(locked) == 0


def test_a_locked_timer_that_is_fired_again_for_another_reason_leaves_the_table_of_locked_timers(
    locked: LockedTimers,
) -> None:
    """For example, a shard has leased and fired a timer again: the table of locked timers must not send it once
    more.
    """
    locked.learn([1, 2, 3], by("700", [1, 2, 3]), now_s=NOW_S)

    assert tried(locked.learn([2], [], now_s=NOW_S)) == ([], [])
    assert tried(locked.learn([1], [], now_s=NOW_S)) == ([3], [])


def test_timers_beyond_the_limit_are_not_kept(locked: LockedTimers) -> None:
    locked.learn(range(20), by("700", range(20)), now_s=NOW_S)
    assert len(locked) == 9

    assert tried(locked.learn([20], by("701", [20]), now_s=NOW_S)) == ([], [])
    assert keys(locked.learn([0], [], now_s=NOW_S).now) == list(range(1, 10))


def test_the_first_timer_of_each_group_is_always_retried(locked: LockedTimers) -> None:
    """Otherwise the group's timers would wait for ever. The rule is true for any order of tries and answers."""

    for seed in range(300):
        chance = random.Random(seed)
        queue, kept, now_s = TimerQueue(), LockedTimers(lease_s=LEASE_S, timers_max=8), NOW_S
        queue.add([timer(key) for key in range(6)])
        for _ in range(40):
            now_s += chance.choice([0.01, 1.0, 6.0])
            if chance.random() < 0.3:
                queue.add([timer(chance.randrange(9))])  # leased again
            sent = keys(queue.pop_due(float("inf"), chance.randint(1, 4)))
            found = [LeasedRow(timer(key), chance.choice("ab")) for key in sent if chance.random() < 0.7]
            retry = kept.learn(sent, found, now_s=now_s)
            queue.add([*retry.now, *retry.later])
        while sent := keys(queue.pop_due(float("inf"), 4)):
            queue.add(kept.learn(sent, [], now_s=now_s).now)
        assert len(kept) == 0, seed


# --- With Postgres ---


async def others_fire(pool: ShardPool, count: int) -> None:
    """Schedule timers with increasing due dates, and let the shard lease each timer before it is due."""
    for number in range(count):
        await pool.db.execute("insert into shardclock.timers (due_date) values (now() + interval '0.2 s')")
        await pool.until_fired(number + 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("outcome", ["rollback", "commit"])
async def test_two_thousand_timers_that_one_client_has_locked_cost_as_many_tries_as_one_timer(
    pool: ShardPool, client: asyncpg.Connection, outcome: str
) -> None:
    shard = await pool.start(lease_s=600.0)
    many = await pool.lease(shard, 2_000, "now() + interval '1.5 s'")
    transaction = client.transaction()
    await transaction.start()
    assert len(await client.fetch("select shardclock.cancel_timers($1)", many)) == 2_000

    await eventually(lambda: shard.stats.locked >= 2_000)
    tries_at_first = shard.stats.locked
    await others_fire(pool, 10)

    assert shard.stats.locked - tries_at_first < 200, "one each 50 ms, and not 2,000"
    assert len(shard) >= 1_999, "one may be on its way"
    await getattr(transaction, outcome)()
    if outcome == "rollback":
        await pool.until_fired(2_010)
        assert shard.stats.fenced == 0
    else:
        await eventually(lambda: shard.stats.fenced == 2_000)
        assert await pool.count_fired() == 10
    await eventually(lambda: len(shard) == 0)
    assert max((await intents(pool.dsn)).values()) == 1


async def test_after_the_end_of_a_short_lock_its_timers_do_not_wait_for_a_long_lock(
    pool: ShardPool, client: asyncpg.Connection, dsn: str
) -> None:
    shard = await pool.start(lease_s=600.0)
    many = await pool.lease(shard, 500, "now() + interval '1 s'")
    await client.execute("begin")
    await client.fetch("select shardclock.pause_timers($1)", many[:499])
    async with HolderClient(dsn) as quick:
        await quick.begin()
        await quick.value("select true from shardclock.timers where timer_key = $1 for update", many[499])
        await eventually(lambda: shard.stats.locked >= 500)
        await quick.rollback()
        await pool.until_fired(1)

    assert [row["timer_key"] for row in await pool.fired()] == [many[499]]
    await client.execute("rollback")
    await pool.until_fired(500)


async def test_a_timer_that_is_locked_longer_than_its_lease_fires_after_the_unlock(
    pool: ShardPool, client: asyncpg.Connection
) -> None:
    shard = await pool.start(lease_s=2.5, horizon_s=1.0, sweep_grace_s=2.0)
    (key,) = await pool.lease(shard, 1, "now() + interval '0.5 s'")
    await client.execute("begin")
    await client.execute("select shardclock.cancel_timer($1)", key)

    await eventually(lambda: shard.stats.locked >= 1)
    await eventually(lambda: len(shard) == 0)
    await client.execute("rollback")

    await pool.until_fired(1)


@pytest.mark.parametrize("schedule", ["R/PT1H", "0 0 31 2 *"], ids=["is planned", "is set aside"])
async def test_a_locked_schedule_without_a_date_delays_no_other_timer(
    pool: ShardPool, client: asyncpg.Connection, schedule: str
) -> None:
    """A shard has not parsed the client's schedule yet.

    The locked row delays no other timer, whether the schedule is valid or not.
    """
    shard = await pool.start(shard=None, of=None)
    key = await add_schedule(
        pool.dsn, schedule, "now() + interval '1.5 s'", anchor="now()", anchor_occurrence="null", zone="'UTC'"
    )
    await pool.assign({shard: (0, 1)})
    await pool.until_held(shard, 1)
    await client.execute("begin")
    await client.execute("select true from shardclock.timers where timer_key = $1 for update", key)
    await eventually(lambda: shard.stats.locked + shard.stats.refused >= 1)
    failed = shard.stats.failures["fires"]

    await others_fire(pool, 3)

    assert shard.stats.failures["fires"] == failed == 0
    await client.execute("rollback")


async def test_the_transactions_that_hold_locks_are_distinguished(dsn: str) -> None:
    await add_holder(dsn, 7)
    first, second, third, free = await add_timers(dsn, 4, "now() + interval '1 s'")
    async with HolderClient(dsn, 7) as shard, HolderClient(dsn) as one, HolderClient(dsn) as other:
        await shard.take()
        await one.begin()
        await one.cancel(timer_key=first)
        await one.value("select true from shardclock.timers where timer_key = $1 for update", second)
        await other.begin()
        await other.value("select true from shardclock.timers where timer_key = $1 for share", third)

        held = {
            it.timer.timer_key: it.locker for it in await still_leased(shard.session, 7, [first, second, third, free])
        }

    assert held[first] == held[second]
    assert len(set(held.values())) == 3
    assert held[free] == "0"
    assert await value(dsn, "select count(*) from shardclock.timers") == 4
