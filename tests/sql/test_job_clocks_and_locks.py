"""Prove that jobs lose no run, place or retry when the clock is set back, or when somebody locks their rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from jobs.states import JobState, RunOutcome
from sql.cluster.holders import end_holders
from sql.jobs.runs import advance_runs
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import LEASE_S, JobWorker, declare, fire, is_whole, job_of, outcomes
from tests.support.jobs import job_spec

RUNNING = JobState.RUNNING.value


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    """Give a worker that keeps all slots."""
    async with JobWorker(dsn, 11) as hand:
        yield hand


@pytest.fixture
async def another(dsn: str) -> AsyncIterator[JobWorker]:
    """Give another worker that believes to keep all slots."""
    async with JobWorker(dsn, 12) as hand:
        yield hand


async def test_a_job_that_a_client_has_locked_takes_up_no_place(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    # Given four jobs that a client has locked, which come before another one
    locked = [job_spec(f"locked{n}", every_s=60.0, priority=1) for n in range(4)]
    await declare(dsn, *locked, job_spec("other", every_s=60.0, priority=4))
    await fire(shard)
    await client.begin()
    await client.value("select count(shardclock.configure_job(name, '{}')) from shardclock.jobs where name <> 'other'")

    begun = await worker.begin(places=1)
    assert [run.job for run in begun.runs] == ["other"]

    await client.rollback()
    assert len((await worker.begin(places=3)).runs) == 3, "no more than there are places"
    assert len((await worker.begin(places=3)).runs) == 1
    assert await is_whole(dsn) == []


async def test_a_run_that_crashed_needs_no_place_and_takes_none(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("b", every_s=60.0), job_spec("c", every_s=60.0))
    await fire(shard)
    (lost,) = (await worker.begin(places=1)).runs
    await end_holders(worker.session, [worker.holder], why="died")

    found = (await another.begin(places=1)).runs

    assert [run.job for run in found if run.crashed] == [lost.job]
    assert sum(not run.crashed for run in found) == 1
    assert [run.crashed for run in (await another.begin(places=0)).runs] == []


async def set_back(dsn: str, by: timedelta) -> None:
    """Let a run's rows be as if the clock had been set back since the run began."""
    await query(
        dsn,
        "update shardclock.deliveries set claimed_until = claimed_until + $1, next_attempt_at = next_attempt_at - $1",
        by,
    )


async def test_a_worker_whose_clock_is_set_back_does_not_find_its_own_run_crashed(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    await set_back(dsn, timedelta(minutes=10))

    assert (await worker.begin(running=[run.timer_key])).runs == []

    assert await worker.end(run) == "ENDED"
    assert await outcomes(dsn) == {"SUCCEEDED": 1}


async def test_who_finds_a_crash_after_the_clock_was_set_back_waits_a_lease_and_no_longer(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    await worker.one()
    await set_back(dsn, timedelta(minutes=10))

    found = await another.one()

    assert found.crashed
    assert found.lease_left == timedelta(seconds=LEASE_S)


async def test_what_a_run_does_while_its_job_is_locked_is_told_to_be_sent_again(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("other", every_s=60.0))
    await fire(shard)
    mine, other = sorted((await worker.begin()).runs, key=lambda run: run.job, reverse=True)
    assert (mine.job, other.job) == ("refresh", "other")
    await client.begin()
    await client.value("select shardclock.configure_job('refresh', '{}')")

    said = [(mine, RUNNING, None), (other, RUNNING, None)]
    assert await advance_runs(worker.session, worker.holder, said) == {mine.claim}
    assert ((await job_of(dsn)).state, (await job_of(dsn, "other")).state) == ("STARTING", "RUNNING")

    await client.rollback()
    assert await advance_runs(worker.session, worker.holder, said) == frozenset()
    assert (await job_of(dsn)).state == "RUNNING"


async def test_a_new_rule_that_no_shard_has_planned_yet_takes_no_retry_from_a_run(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0, max_retries=3))
    await fire(shard)
    run = await worker.one()
    await declare(dsn, job_spec(schedule="0 3 * * *", max_retries=3))

    await worker.end(run, RunOutcome.INTERRUPTED, delay_s=1.0, fails=False)

    assert await value(dsn, "select count(*) from shardclock.deliveries where target = 'job:refresh'") == 1
    await worker.wait(2.0)
    assert (await worker.one()).attempt == 1
