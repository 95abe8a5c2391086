"""Memory depends on the horizon, not on the number of pending timers; a backlog drains and delays no other timer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.shards import scan_planner
from shardclock_server.shards import shard as shard_module
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.claims.claim import ScanResult
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import HolderClient, add_fired_rows, add_holder, add_timers, old_snapshot
from tests.support.shard_pool import ShardPool
from tests.support.verdict import breaches
from tests.support.waiting import eventually

SECOND = timedelta(seconds=1)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ScanResult]]:
    made: list[tuple[str, ScanResult]] = []
    real = vars(shard_module)["claim_due"]

    async def recording(*args: Any, **kwargs: Any) -> ScanResult:
        taken: ScanResult = await real(*args, **kwargs)
        made.append((args[2].scope, taken))
        return taken

    monkeypatch.setattr(shard_module, "claim_due", recording)
    return made


def watch_length(shard: Shard) -> list[int]:
    """Record the number of timers in a shard's memory after each addition."""
    lengths: list[int] = []
    add = shard._queue.add

    def recording(timers: Iterable[ClaimedTimer], *, not_before_s: float = 0.0) -> None:
        add(timers, not_before_s=not_before_s)
        lengths.append(len(shard))

    shard._queue.add = recording  # type: ignore[method-assign]
    return lengths


@pytest.mark.slow
async def test_a_full_queue_does_not_grow_and_a_timer_that_is_due_immediately_still_fires_immediately(
    pool: ShardPool,
) -> None:
    await add_timers(pool.dsn, 200_000, "now() + interval '30 s' + i * interval '0.1 ms'")
    shard = await pool.start(horizon_s=60.0, lease_s=120.0, queue_max=3_000, claim_batch=840)
    lengths = watch_length(shard)
    await pool.until_held(shard, 3_000 - 840)

    for number in range(1, 11):
        await add_timers(pool.dsn, 5, "now()")
        await pool.until_fired(5 * number)

    assert max(lengths) <= 3_000 + 840
    assert max(row["recorded_at"] - row["due_date"] for row in await pool.fired()) < SECOND
    assert await pool.db.fetchval("select count(*) from shardclock.timers where claimed_by is not null") <= 3_840


@pytest.mark.slow
async def test_more_timers_within_the_horizon_than_fit_all_fire(pool: ShardPool) -> None:
    keys = await add_timers(pool.dsn, 10_000, "now() + interval '0.5 s' + i * interval '0.05 ms'")
    shard = await pool.start(queue_max=1_000, claim_batch=840, fire_batch=100)
    lengths = watch_length(shard)
    await pool.until_empty()

    assert max(lengths) <= 1_000 + 840
    assert await pool.count_fired() == len(keys)
    assert await breaches(pool.db, keys) == {}


@pytest.mark.slow
async def test_overdue_repeats_that_exceed_the_queue_need_bounded_memory_and_all_fire(pool: ShardPool) -> None:
    rule = {
        "name": "'r' || i",
        "schedule": "'R1/PT1H'",
        "anchor": "now() - interval '1 hour 1 minute'",
        "repetitions": "1",
    }
    keys = await add_timers(pool.dsn, 10_000, "now() - interval '1 minute'", **rule)
    shard = await pool.start(queue_max=1_000, claim_batch=840, fire_batch=100)
    lengths = watch_length(shard)
    await pool.until_empty()

    # A turn starts only if the queue exceeds its limit by less than one claim, and runs two scans.
    assert max(lengths) < 1_000 + 3 * 840
    assert await breaches(pool.db, keys) == {}


@pytest.mark.exhaustive
async def test_a_million_timers_far_in_the_future_cost_a_shard_no_memory(
    pool: ShardPool, scans: list[tuple[str, ScanResult]]
) -> None:
    await pool.db.execute("set synchronous_commit = off")
    await pool.db.execute(
        "insert into shardclock.timers (due_date) select now() + interval '1 h' + i * interval '1 ms'"
        " from generate_series(1, 1000000) i",
        timeout=60,
    )
    shard = await pool.start()
    await pool.until_fired(0)
    await eventually(lambda: len(scans) >= 5)
    assert (len(shard), shard.stats.claimed) == (0, 0)

    await add_timers(pool.dsn, 10, "now()")
    await pool.until_fired(10)

    assert max(row["recorded_at"] - row["due_date"] for row in await pool.fired()) < SECOND
    assert len(shard) == 0


@pytest.mark.slow
async def test_a_backlog_drains_in_few_statements_and_timers_that_fall_due_meanwhile_are_on_time(
    pool: ShardPool, scans: list[tuple[str, ScanResult]], monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog = await add_timers(pool.dsn, 100_000, "now() - interval '1 h' + i * interval '1 ms'")
    await pool.db.execute("update shardclock.coordination set ramp_per_s = null")
    # The backlog needs many scans, so other timers become due during the drain.
    shards = [await pool.start(place, 2, claim_batch=1_680, sweep_s=3_600.0) for place in range(2)]
    await eventually(lambda: all(shard._planner.ramp.catching_up for shard in shards))
    upcoming = await add_timers(pool.dsn, 500, "now() + interval '0.2 s' + i * interval '0.2 ms'")
    await pool.until_empty()

    fired = await pool.fired()
    assert len(fired) == len(backlog) + len(upcoming)
    await pool.db.execute("analyze shardclock.command_log")  # so that Postgres plans the judge's queries for a long log
    assert await breaches(pool.db, backlog + upcoming) == {}
    # The scans themselves fired the backlog, without holding it in memory; each scan took a full batch.
    assert sum(taken.fired for _, taken in scans) >= len(backlog)
    assert sum(shard.stats.claimed for shard in shards) <= len(upcoming)
    assert sum(1 for _, taken in scans if taken.fired) <= 1.5 * len(backlog) / 840 + 10
    # Timers that became due during the drain fired before timers that were overdue for an hour.
    took = fired[-1]["recorded_at"] - fired[0]["recorded_at"]
    on_time = [row for row in fired if row["timer_key"] >= upcoming[0]]
    last_of_backlog = max(row["recorded_at"] for row in fired if row["timer_key"] < upcoming[0])
    during = [row["recorded_at"] - row["due_date"] for row in on_time if row["due_date"] < last_of_backlog]
    assert during, "they were to fall due while it drained"
    assert max(during) < took / 3


@pytest.mark.slow
async def test_the_oldest_of_a_backlog_fire_first_within_each_slot(pool: ShardPool) -> None:
    keys = await add_timers(pool.dsn, 20_000, "now() - interval '1 minute' - i * interval '1 s'")
    await pool.start(claim_batch=1_680)
    await pool.until_empty()

    last: dict[int, Any] = {}
    for row in await pool.fired():
        slot = row["timer_key"] % 840
        assert slot not in last or last[slot] <= row["due_date"]
        last[slot] = row["due_date"]
    assert await breaches(pool.db, keys) == {}


async def test_an_idle_shard_scans_once_per_poll(pool: ShardPool, scans: list[tuple[str, ScanResult]]) -> None:
    shard = await pool.start(poll_s=0.05, sweep_s=3_600.0)
    # The first scans read the ramp's rate. Until the ramp allows a whole batch, a separate scan reads the timers of an
    # outage.
    await eventually(lambda: len(scans) >= 6)
    began = len(scans)
    await eventually(lambda: len(scans) >= began + 12)

    took = scans[-1][1].server_time - scans[began - 1][1].server_time
    assert took >= (len(scans) - began - 1) * timedelta(seconds=0.05) * 0.9
    assert shard.stats.fired == 0


@pytest.mark.slow
async def test_a_timer_that_is_scheduled_long_overdue_is_found_within_a_rotation(
    pool: ShardPool, scans: list[tuple[str, ScanResult]]
) -> None:
    shard = await pool.start()
    await eventually(lambda: len(scans) >= 30 and shard._planner.ramp.per_s is not None)
    began = len(scans)
    keys = await add_timers(pool.dsn, 500, "now() - interval '1 hour'")
    await pool.until_fired(len(keys))

    found = [number for number, (_, taken) in enumerate(scans[began:]) if taken.fired]
    assert len(found) > 1, "not all by one scan"
    assert len([scope for scope, _ in scans[began : began + found[-1] + 1] if scope == "own"]) <= 7, (
        "five make a rotation"
    )
    assert await breaches(pool.db, keys) == {}


@pytest.mark.exhaustive
async def test_a_shard_that_gets_stuck_on_fired_rows_reads_fewer_slots_in_full(
    pool: ShardPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a session holds an old snapshot, a scan reads all rows fired since, which may exceed the timeout."""
    monkeypatch.setattr(scan_planner, "SLOW_S", 0.01)
    async with old_snapshot(pool.dsn), HolderClient(pool.dsn, holder=HOLDER) as hand:
        await add_fired_rows(pool.dsn, 400_000)
        await add_holder(pool.dsn, HOLDER)
        whole_s = min([await _timed(hand) for _ in range(2)])

        keys = await add_timers(pool.dsn, 10_000, "now() - interval '30 s'")
        keys += await add_timers(pool.dsn, 1_000, "now() + i * interval '1 ms'")
        shard = await pool.start(statement_timeout_s=whole_s / 2)
        # A claim with a lost answer may have leased timers. These timers fire only after the end of their lease.
        await pool.until_fired(len(keys), within_s=60)

        assert shard.stats.failures["claims"] > 0, "it did get stuck"
        assert await breaches(pool.db, keys) == {}


HOLDER = 77


async def _timed(hand: HolderClient) -> float:
    began_s = time.monotonic()
    assert (await hand.take(horizon_s=0, fire_overdue=True)).fired == 0
    return time.monotonic() - began_s
