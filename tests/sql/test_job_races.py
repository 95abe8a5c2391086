"""Prove that no order of begins, ends, crashes, cancellations and verbs loses a run or a start of a job."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise

import pytest

from shardclock_server.jobs.next_attempt import RunEnding
from shardclock_server.jobs.states import JobStateName, RunOutcome
from shardclock_server.sql.jobs.declare import FORGOTTEN_MAX, KEPT_RUNS, prune_runs
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun, How, advance_runs, record_late_runs
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


class JobStory:
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
    story = JobStory(dsn, shard, workers, seed)

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


async def test_a_timer_that_fires_while_its_job_is_disabled_starts_no_run(
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


CANCEL = "select shardclock.cancel_job('refresh')"
STARTS = "select count(*) from shardclock.deliveries"


async def start(dsn: str, shard: HolderClient, *, slot: int | None = None) -> int:
    """Start the job on request, in a slot; return the start's key."""
    key: int = await value(dsn, "select shardclock.run_job('refresh')")
    await fire(shard)
    if slot is not None:
        await query(dsn, "update shardclock.deliveries set slot = $2 where timer_key = $1", key, slot)
    return key


async def make_due(dsn: str, timer_key: int) -> None:
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() where timer_key = $1", timer_key)


@pytest.mark.parametrize(
    "outcome", [RunOutcome.CRASHED, RunOutcome.FAILED, RunOutcome.TIMED_OUT, RunOutcome.INTERRUPTED]
)
async def test_a_cancelled_run_with_any_end_is_not_tried_again(
    dsn: str, shard: HolderClient, worker: JobWorker, outcome: RunOutcome
) -> None:
    await declare(dsn, job_spec(max_retries=5))
    await start(dsn, shard)
    run = await worker.one()
    assert await value(dsn, CANCEL) == "TERMINATING"

    await worker.end(run, outcome, delay_s=0.0)

    assert (await worker.begin()).runs == []
    assert await value(dsn, STARTS) == 0
    if outcome is RunOutcome.INTERRUPTED:  # the run counts as cancelled, although its worker knew of no cancellation
        (ended,) = await runs_of(dsn)
        assert (ended.outcome, ended.reason) == ("CANCELED", "cancelled by postgres")
    else:
        assert await outcomes(dsn) == {outcome.value: 1}
    assert await is_whole(dsn) == []


async def test_a_run_that_is_ending_because_its_time_is_over_can_be_cancelled(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(max_retries=5))
    await start(dsn, shard)
    run = await worker.one()
    await advance_runs(worker.session, worker.holder, [(run, JobStateName.TERMINATING.value, "it took too long")])
    assert await value(dsn, CANCEL) == "TERMINATING"

    await worker.end(run, RunOutcome.TIMED_OUT, delay_s=0.0)

    assert await value(dsn, STARTS) == 0


async def test_a_start_that_was_not_cancelled_is_retried_after_a_cancelled_start(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(max_retries=5))
    await start(dsn, shard)
    run = await worker.one()
    await value(dsn, CANCEL)
    await worker.end(run, RunOutcome.CANCELED)
    again = await start(dsn, shard)

    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=0.0)

    assert (await worker.one()).timer_key == again


async def replacing(dsn: str, shard: HolderClient, one: JobWorker) -> BegunRun:
    await declare(dsn, job_spec(overlap="replace", max_retries=5))
    await start(dsn, shard, slot=0)
    return await one.one()


async def test_if_two_workers_each_read_one_of_two_starts_the_later_start_finally_runs(
    dsn: str, shard: HolderClient
) -> None:
    async with JobWorker(dsn, 11) as one, JobWorker(dsn, 12) as other:
        for holder, part in ((11, 0), (12, 1)):
            await query(dsn, "update shardclock.holders set part = $2, part_count = 2 where holder = $1", holder, part)
        run = await replacing(dsn, shard, one)
        older, newer = await start(dsn, shard, slot=2), await start(dsn, shard, slot=1)
        await other.begin()
        await one.begin()
        assert (await job_of(dsn)).state == "TERMINATING"
        await one.end(run, RunOutcome.CANCELED)

        second = await one.one()  # the poll sees only the older start
        assert second.timer_key == older
        assert (await other.begin()).dropped == 0, "the later start continues waiting, and replaces it"
        assert (await job_of(dsn)).state == "TERMINATING"
        await one.end(second, RunOutcome.CANCELED)
        assert (await other.one()).timer_key == newer


async def test_a_retry_does_not_replace_a_later_run(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    first = await replacing(dsn, shard, worker)
    await worker.end(first, RunOutcome.FAILED, delay_s=60.0)
    by_hand = await start(dsn, shard)
    assert (await worker.one()).timer_key == by_hand
    await make_due(dsn, first.timer_key)

    begun = await worker.begin()

    assert (begun.runs, begun.dropped, begun.replaced) == ([], 1, 0)
    job = await job_of(dsn)
    assert (job.state, job.waiting) == ("STARTING", 0)


RUNS = """
insert into shardclock.job_runs (timer_key, claims, job, outcome, attempt, scheduled_at, started_at, ended_at, holder)
select n, 1, $1, $2, 1, now(), now() - n * interval '1 second', now(), 11 from generate_series($3::bigint, $4::bigint) n
"""


async def test_old_runs_are_deleted_faster_than_new_ones_are_added_and_skipped_starts_replace_no_runs(
    dsn: str, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(), job_spec("other"))
    await query(dsn, RUNS, "refresh", "SUCCEEDED", 1, FORGOTTEN_MAX + 500)
    await query(dsn, RUNS, "other", "SUCCEEDED", 20_001, 20_005)
    await query(dsn, RUNS, "other", "SKIPPED", 30_001, 30_000 + KEPT_RUNS + 20)
    await query(dsn, RUNS, "gone", "SUCCEEDED", 40_001, 40_003)

    forgotten = [await prune_runs(worker.session, worker.holder) for _ in range(3)]

    assert (forgotten[0], forgotten[2], sum(forgotten)) == (FORGOTTEN_MAX, 0, FORGOTTEN_MAX + 500 - KEPT_RUNS + 20 + 3)
    assert [run.run_id for run in await runs_of(dsn)] == [f"{n}.1" for n in range(KEPT_RUNS, 0, -1)], "the newest stay"
    assert await outcomes(dsn, "other") == {"SUCCEEDED": 5, "SKIPPED": KEPT_RUNS}
    assert await runs_of(dsn, "gone") == []


@pytest.mark.shared_database
@pytest.mark.parametrize("rule", ["R3/PT1H", "r3/pt1h", "R/PT1H/2099-01-01T00:00:00Z", "R/P1D/2099-01-01T00:00:00Z"])
async def test_a_rule_with_an_end_is_refused_for_a_job(dsn: str, rule: str) -> None:
    await declare(dsn, job_spec())
    refused = "select shardclock.add_job('other', of_job => 'refresh', schedule => $1)"
    with pytest.raises(Exception, match="ends, and a job has no end"):
        await value(dsn, refused, rule)
    with pytest.raises(Exception, match="ends, and a job has no end"):
        await value(
            dsn,
            "select shardclock.apply_job(jsonb_build_object('name', 'o', 'function', 'a:b', 'schedule', $1::text))",
            rule,
        )
    assert await value(dsn, "select count(*) from shardclock.jobs") == 1
