"""Prove that a shard with a wrong clock fires nothing early, has no busy loop, and catches up."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.shards import shard as shard_module
from shardclock_server.sql.claims.claim import ScanResult
from tests.support.factories import add_timers
from tests.support.shard_pool import ShardPool
from tests.support.verdict import breaches


async def test_a_clock_that_was_ahead_once_leads_to_one_retry_and_nothing_early(
    pool: ShardPool, fire_calls: list[int]
) -> None:
    shard = await pool.start(lease_s=600.0)
    keys = await pool.lease(shard, 100, "now() + interval '1.5 s'")

    wrong = shard._clock.now() + timedelta(hours=1)
    shard._clock.observe(wrong, sent_s=time.monotonic())
    shard._queue.wake()
    await pool.until_fired(100)

    assert shard.stats.early == 100
    assert len(fire_calls) <= 4
    assert await breaches(pool.db, keys) == {}


async def test_a_clock_that_is_always_ahead_never_fires_early_and_never_spins(
    pool: ShardPool, fire_calls: list[int], claim_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vars(shard_module)["claim_due"]

    async def ahead(*args: Any, **kwargs: Any) -> ScanResult:
        taken: ScanResult = await real(*args, **kwargs)
        return replace(taken, server_time=taken.server_time + timedelta(seconds=5))

    monkeypatch.setattr(shard_module, "claim_due", ahead)
    shard = await pool.start(lease_s=600.0)
    await pool.until_ready(shard)
    keys = await add_timers(pool.dsn, 100, "now() + interval '1 s' + i * interval '2 ms'")
    await pool.until_fired(100)

    assert shard.stats.early > 0
    # Each wrong clock reading may cost an early try, and a second try that corrects the clock. Then the queue waits.
    assert len(fire_calls) <= 2 * len(claim_calls) + 100 + 5
    assert await breaches(pool.db, keys) == {}


async def test_a_clock_that_is_behind_fires_late_and_catches_up_with_the_next_answer(pool: ShardPool) -> None:
    shard = await pool.start(lease_s=600.0)
    keys = await pool.lease(shard, 10, "now() + interval '0.7 s'")

    shard._clock._samples.clear()  # as if the only answer for a long time had been a slow one
    shard._clock._samples.append((time.monotonic(), -time.monotonic()))
    shard._queue.wake()
    await pool.until_fired(10)

    assert await breaches(pool.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in await pool.fired()) < timedelta(seconds=1)
