"""Prove that a crash and a job's next start are never lost, in any order of begins, ends, crashes and verbs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise

import pytest

from shardclock_server.jobs.ending import RunEnding
from shardclock_server.jobs.states import JobStateName, RunOutcome
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun, How, record_late_runs
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import LEASE_S, JobWorker, declare, fire, is_whole, job_of, outcomes, runs_of
from tests.support.jobs import job_spec

STEPS = 60
STATES = """
    select intent, timer_key from shardclock.command_log
    where target = 'job:refresh' and intent in ('SCHEDULED', 'STARTING', 'RUNNING', 'TERMINATING', 'DISABLED')
    order by position
"""
# Each change that a job can make: docs/decisions/0042-jobs.md. A crash is found in any state of a run.
FOLLOWING = {
    JobStateName.SCHEDULED: {JobStateName.STARTING, JobStateName.DISABLED, JobStateName.SCHEDULED},
    JobStateName.STARTING: {
        JobStateName.RUNNING,
        JobStateName.TERMINATING,
        JobStateName.SCHEDULED,
        JobStateName.DISABLED,
    },
    JobStateName.RUNNING: {JobStateName.TERMINATING, JobStateName.SCHEDULED, JobStateName.DISABLED},
    JobStateName.TERMINATING: {JobStateName.SCHEDULED, JobStateName.DISABLED},
    JobStateName.DISABLED: {JobStateName.SCHEDULED},
}


class Story:
    """Two workers, a shard and a client that act at random; each worker may be late with the end of its run."""

    def __init__(self, dsn: str, shard: HolderClient, workers: list[JobWorker], seed: int) -> None:
        self.dsn, self.shard, self.workers = dsn, shard, workers
        self.chance = random.Random(seed)
        self.begun = 0
        self.in_hand: list[tuple[JobWorker, BegunRun]] = []

    async def step(self) -> None:
        steps: list[Callable[[], Awaitable[object]]] = [
            self.begin, self.begin, self.end, self.end, self.time_passes, self.ask, self.ask_for_a_run,
        ]  # fmt: skip
        await self.chance.choice(steps)()
        await fire(self.shard)

    async def begin(self) -> None:
        worker = self.chance.choice(self.workers)
        for run in (await worker.begin()).runs:
            self.begun += not run.crashed
            self.in_hand.append((worker, run))

    async def end(self) -> None:
        """End a worker's run, perhaps very late; if the answer is lost, the worker sends the end again."""
        if not self.in_hand:
            return
        worker, run = self.in_hand.pop(self.chance.randrange(len(self.in_hand)))
        outcome = (
            RunOutcome.CRASHED
            if run.crashed
            else self.chance.choice(
                [RunOutcome.SUCCEEDED, RunOutcome.FAILED, RunOutcome.CANCELED, RunOutcome.INTERRUPTED]
            )
        )
        delay_s = self.chance.choice([None, 0.0, 5.0])
        for _ in range(self.chance.choice([1, 2])):
            how = await worker.end(run, outcome, delay_s=0.0 if outcome is RunOutcome.INTERRUPTED else delay_s)
            if how is How.LOST:
                await record_late_runs(worker.session, [EndedRun(run, RunEnding(outcome))])

    async def time_passes(self) -> None:
        seconds = self.chance.choice([1.0, LEASE_S + 1])
        for worker in self.workers:
            await worker.wait(seconds)
        await query(self.dsn, "update shardclock.timers set due_date = now() where name = 'job:refresh'")

    async def ask(self) -> None:
        is_enabled = await value(self.dsn, "select is_enabled from shardclock.jobs")
        verb = self.chance.choice(["cancel_job", "disable_job"]) if is_enabled else "enable_job"
        await query(self.dsn, f"select shardclock.{verb}('refresh')")

    async def ask_for_a_run(self) -> None:
        """Ask for one more run as a client, if the job accepts the request."""
        await query(self.dsn, "select shardclock.run_job(j.name) from shardclock.jobs j where j.is_enabled")


@pytest.fixture
async def workers(dsn: str) -> AsyncIterator[list[JobWorker]]:
    """Yield two workers that both believe that they have all slots."""
    async with JobWorker(dsn, 11) as one, JobWorker(dsn, 12) as two:
        yield [one, two]


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
@pytest.mark.parametrize("seed", range(6))
async def test_in_any_order_each_run_ends_once_and_the_job_continues(
    dsn: str, shard: HolderClient, workers: list[JobWorker], overlap: str, seed: int
) -> None:
    await declare(dsn, job_spec(every_s=60.0, overlap=overlap))
    story = Story(dsn, shard, workers, seed)

    for _ in range(STEPS):
        await story.step()
        assert await is_whole(dsn) == []

    job, ended = await job_of(dsn), await outcomes(dsn)
    assert story.begun >= 3, "otherwise the test proves little"
    assert job.runs == story.begun == sum(ended.values()) - ended["SKIPPED"], "each run is recorded"
    assert job.crashes == ended["CRASHED"], "each crash is counted"
    assert job.successes == ended["SUCCEEDED"]
    assert job.failures == ended["FAILED"]
    assert ended["going"] <= 1
    for run in await runs_of(dsn):
        assert run.late_at is None or run.outcome == "CRASHED"
    states = [JobStateName(row["intent"]) for row in await query(dsn, STATES)]
    assert [(before, after) for before, after in pairwise(states) if after not in FOLLOWING[before]] == []


async def test_one_of_two_workers_that_begin_at_the_same_time_begins_a_run(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    await declare(dsn, *(job_spec(f"job{number}", overlap="queue") for number in range(20)))
    await query(
        dsn, "select shardclock.run_job('job' || n) from generate_series(0, 19) n cross join generate_series(1, 3)"
    )
    await fire(shard)
    begun: list[BegunRun] = []

    while len(begun) < 20:
        for found in await asyncio.gather(*(worker.begin(places=3) for worker in workers)):
            begun += found.runs

    assert sorted(run.job for run in begun) == sorted(f"job{number}" for number in range(20))
    assert await value(dsn, "select sum(runs) from shardclock.jobs") == 20
    for worker in workers:
        assert (await worker.begin()).runs == [], "the others wait"


async def test_a_disable_and_the_end_of_a_run_at_the_same_time_leave_no_start(
    dsn: str, shard: HolderClient, client: HolderClient, workers: list[JobWorker]
) -> None:
    worker = workers[0]
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    await client.begin()
    await client.value("select shardclock.disable_job('refresh')")

    assert await worker.end(run) == How.LOCKED, "the end waits for the client's commit"
    await client.commit()
    assert await worker.end(run) == How.ENDED

    assert (await job_of(dsn)).state == "DISABLED"
    assert await value(dsn, "select count(*) from shardclock.timers") == 0
    assert await is_whole(dsn) == []


async def test_a_timer_that_fires_while_its_job_is_disabled_starts_nothing(
    dsn: str, shard: HolderClient, client: HolderClient, workers: list[JobWorker]
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await shard.begin()
    assert await fire(shard) == 1
    disabling = asyncio.create_task(client.value("select shardclock.disable_job('refresh')"))
    await shard.commit()

    assert await disabling == "DISABLED"
    begun = await workers[0].begin()
    assert (begun.runs, begun.dropped) == ([], 1)
    assert await is_whole(dsn) == []
