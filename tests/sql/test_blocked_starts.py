"""Many waiting starts hide no other job. No start is dropped while the end of a run needs the start."""

from __future__ import annotations

import asyncpg
import pytest

from shardclock_server.sql.jobs.runs import StartCursor
from tests.support.factories import BOUND_S, HolderClient, query
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec

pytestmark = pytest.mark.each_version

SLOW = [f"slow{number:02}" for number in range(11)]
QUEUED = 100  # for each job; together more than one poll reads
STARTS = "select shardclock.run_job(name) from unnest($1::text[]) as j (name), generate_series(1, $2) order by name"


async def fire_all(shard: HolderClient) -> None:
    while await fire(shard):
        pass


async def test_blocked_starts_hide_no_later_start(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    # Given jobs that run, with more starts than one poll reads
    await declare(dsn, *(job_spec(name, overlap="queue") for name in SLOW), job_spec("nightly"))
    await query(dsn, STARTS, SLOW, 1)
    await fire_all(shard)
    going = [run.timer_key for run in (await worker.begin(places=20)).runs]
    assert len(going) == len(SLOW)
    await query(dsn, STARTS, SLOW, QUEUED)
    await fire_all(shard)

    # When another job's start is due after all these starts, and one job has more starts than may wait
    await query(dsn, STARTS, ["nightly"], 1)
    await query(dsn, STARTS, SLOW[:1], 15)
    await fire_all(shard)
    first = await worker.begin(running=going)

    # Then a poll that reads the first starts begins no run. A poll that continues after these starts begins the other
    # job.
    assert (first.saturated, first.runs, first.dropped) == (True, [], 0)
    assert first.last_at is not None
    assert first.last_key is not None
    after = StartCursor(first.last_at, first.last_key)
    second = await worker.begin(running=going, after=after)
    assert [run.job for run in second.runs] == ["nightly"]
    assert (second.saturated, second.dropped) == (False, 15)


async def test_a_start_is_not_dropped_while_the_run_that_it_met_may_be_ending(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    await query(dsn, STARTS, ["refresh"], 1)
    await fire_all(shard)
    run = await worker.one()
    await query(dsn, STARTS, ["refresh"], 1)
    await fire_all(shard)

    ending = await asyncpg.connect(dsn, timeout=BOUND_S)
    async with ending.transaction():
        await ending.execute("select from shardclock.jobs for update")  # as the end of a run does
        assert (await worker.begin(running=[run.timer_key])).dropped == 0
    await ending.close(timeout=BOUND_S)

    waits = await worker.begin(running=[run.timer_key], ending=[run.timer_key])
    assert (waits.dropped, waits.queued, waits.runs) == (0, True, []), "its end is about to be written"
    assert (await worker.begin(running=[run.timer_key])).dropped == 1
