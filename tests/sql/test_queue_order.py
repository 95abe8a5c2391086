"""Prove that a job with a queue starts its runs in the order of the requests, and that no start hides another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import asyncpg
import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.clock.moved import next_due
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.jobs.runs import BegunRun, How, StartCursor
from tests.support.factories import BOUND_S, HolderClient, query, value
from tests.support.job_runs import LEASE_S, JobWorker, declare, fire, is_whole
from tests.support.jobs import job_spec

pytestmark = pytest.mark.each_version

ASK = "select shardclock.run_job('refresh')"
PARTS = 2


@pytest.fixture
async def workers(dsn: str) -> AsyncIterator[list[JobWorker]]:
    await declare(dsn, job_spec(overlap="queue", max_retries=3))
    async with JobWorker(dsn, 11, part=0, part_count=PARTS) as one, JobWorker(dsn, 12, part=1, part_count=PARTS) as two:
        yield [one, two]


async def ask(dsn: str, shard: HolderClient, count: int = 1) -> list[int]:
    """Ask for runs, one after the other, and let their timers fire."""
    keys = []
    for _ in range(count):
        keys.append(int(await value(dsn, ASK)))
        await fire(shard)
    return keys


async def begin(*workers: JobWorker) -> list[tuple[JobWorker, BegunRun]]:
    """Poll for starts as several workers, one after the other."""
    return [(worker, run) for worker in workers for run in (await worker.begin()).runs]


async def test_starts_in_the_slots_of_several_workers_run_in_order(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    asked = await ask(dsn, shard, 8)
    slots = await query(dsn, "select distinct slot % $1 as part from shardclock.deliveries", PARTS)
    assert len(slots) == PARTS, "else one worker sees all of them"

    ran = []
    for turn in range(len(asked)):
        # The worker that has ended a run polls first.
        ((worker, run),) = await begin(*(workers if turn % 3 else reversed(workers)))
        ran.append(run.timer_key)
        assert await worker.end(run) == How.ENDED

    assert ran == asked
    assert await begin(*workers) == []
    assert await is_whole(dsn) == []


async def test_a_single_worker_begins_the_starts_in_the_slots_of_a_worker_that_does_not_poll(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    asked = await ask(dsn, shard, 6)
    parts = {row["timer_key"]: row["slot"] % PARTS for row in await query(dsn, "select * from shardclock.deliveries")}
    worker = workers[parts[asked[-1]]]

    ran = []
    while begun := await begin(worker):
        ran += [run.timer_key for _, run in begun]
        await worker.end(begun[0][1])

    assert ran == asked


@pytest.mark.parametrize("outcome", [RunOutcome.FAILED, RunOutcome.TIMED_OUT, RunOutcome.INTERRUPTED])
async def test_no_start_overtakes_an_attempt_that_waits(
    dsn: str, shard: HolderClient, workers: list[JobWorker], outcome: RunOutcome
) -> None:
    first, second = await ask(dsn, shard, 2)
    ((worker, run),) = await begin(*workers)
    await worker.end(run, outcome, delay_s=30.0, reason="later")

    assert await begin(*workers) == []
    for each in workers:
        await each.wait(31.0)
    ((worker, run),) = await begin(*workers)
    assert run.timer_key == first
    await worker.end(run, RunOutcome.FAILED, delay_s=None, reason="its last attempt")

    assert [run.timer_key for _, run in await begin(*workers)] == [second]


async def test_no_start_overtakes_a_start_whose_worker_died(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    asked = await ask(dsn, shard, 3)
    ((dead, run),) = await begin(*workers)
    await end_holders(workers[0].session, [dead.holder], why="dead")
    async with JobWorker(dsn, 13) as successor:
        found = await successor.one()
        assert (found.timer_key, found.crashed) == (run.timer_key, True)
        await successor.end(found, RunOutcome.CRASHED, delay_s=20.0, reason="its worker was lost")
        assert (await successor.begin()).runs == []
        await successor.wait(21.0)

        ran = []
        for _ in asked:
            again = await successor.one()
            ran.append(again.timer_key)
            await successor.end(again)

    assert ran == asked


async def test_no_start_overtakes_a_start_whose_timer_has_yet_to_fire(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    # Given that the first start's timer can't fire, because a client has locked the timer
    first = await value(dsn, ASK)
    client = await asyncpg.connect(dsn, timeout=BOUND_S)
    transaction = client.transaction()
    await transaction.start()
    await client.execute("select from shardclock.timers for update")
    (second,) = await ask(dsn, shard)
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 1

    # When workers poll for starts, then the second start waits for the first.
    assert await begin(*workers) == []
    await transaction.rollback()
    await client.close(timeout=BOUND_S)
    await fire(shard)
    ((worker, run),) = await begin(*workers)
    await worker.end(run)
    assert [run.timer_key, (await begin(*workers))[0][1].timer_key] == [first, second]


async def test_a_paused_start_and_a_rule_without_a_date_block_no_other_start(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    await value(dsn, ASK)
    await query(
        dsn, "select shardclock.pause_rows(array(select timer_key from shardclock.timers), null, true, null, null)"
    )
    await query(
        dsn,
        "insert into shardclock.timers"
        " (timer_key, due_date, name, schedule, target, anchor, anchor_occurrence, repetitions)"
        " values (nextval('shardclock.timer_key_seq'), now(), 'n', '0 8 1 1 *', 'job:refresh', now(), null, -1)",
    )

    (second,) = await ask(dsn, shard)

    assert [run.timer_key for _, run in await begin(*workers)] == [second]


async def test_a_start_counts_from_its_request_and_not_from_the_begin_of_its_transaction(
    dsn: str, shard: HolderClient, workers: list[JobWorker]
) -> None:
    client = await asyncpg.connect(dsn, timeout=BOUND_S)
    async with client.transaction():
        await client.fetchval("select now()")
        (first,) = await ask(dsn, shard)
        second = await client.fetchval(ASK)
    await client.close(timeout=BOUND_S)
    await fire(shard)

    ((worker, run),) = await begin(*workers)
    await worker.end(run)

    assert [run.timer_key, (await begin(*workers))[0][1].timer_key] == [first, second]


async def test_a_released_start_keeps_its_position_in_the_queue_among_many_starts(
    dsn: str, shard: HolderClient
) -> None:
    await declare(dsn, job_spec(overlap="queue", max_retries=3))
    async with JobWorker(dsn, 11) as worker:
        (first,) = await ask(dsn, shard)
        await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=30.0, reason="later")
        await query(dsn, "select shardclock.run_job('refresh') from generate_series(1, 120)")
        await fire(shard)
        await worker.wait(31.0)

        begun = await worker.begin()

        assert ([run.timer_key for run in begun.runs], begun.dropped > 0) == ([first], True)


@pytest.mark.parametrize("look", [30, 101, 300])
async def test_a_start_that_fires_late_keeps_its_position_in_the_queue_among_many_starts(
    dsn: str, shard: HolderClient, look: int
) -> None:
    # Given that the first start's timer fires after the timers of a hundred later starts
    await declare(dsn, job_spec(overlap="queue", max_retries=3))
    async with JobWorker(dsn, 11) as worker:
        first = await value(dsn, ASK)
        client = await asyncpg.connect(dsn, timeout=BOUND_S)
        transaction = client.transaction()
        await transaction.start()
        await client.execute("select from shardclock.timers for update")
        asked = await ask(dsn, shard, 100)
        await transaction.rollback()
        await client.close(timeout=BOUND_S)
        await fire(shard)

        # When a worker without a free process reads all starts
        begun = await worker.begin(places=0, look=look)
        dropped = begun.dropped
        while begun.saturated and begun.last_at and begun.last_key:
            begun = await worker.begin(places=0, look=look, after=StartCursor(begun.last_at, begun.last_key))
            dropped += begun.dropped

        # Then the worker drops the last start, and the first start runs first.
        assert dropped == 1
        assert (await worker.one()).timer_key == first
        left = await query(dsn, "select timer_key from shardclock.deliveries order by due_date, timer_key")
        assert [row["timer_key"] for row in left] == [first, *asked[:-1]]


async def test_a_test_that_moves_the_clock_gets_only_the_first_start(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, job_spec(overlap="queue", max_retries=3))
    async with JobWorker(dsn, 11) as worker:
        first, _ = await ask(dsn, shard, 2)
        await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=30.0, reason="later")

        due = await next_due(worker.session)

    assert due is not None
    assert due.timer_key == first


class QueueStory:
    """Two workers, a shard and a client that act at random."""

    def __init__(self, dsn: str, shard: HolderClient, workers: list[JobWorker], seed: int) -> None:
        self.dsn, self.shard, self.workers = dsn, shard, workers
        self.chance = random.Random(seed)
        self.asked: list[int] = []
        self.begun: list[int] = []
        self.over: set[int] = set()
        self.in_hand: list[tuple[JobWorker, BegunRun]] = []

    async def step(self) -> None:
        acts = [self.look] * 3 + [self.end] * 3 + [self.ask, self.pass_time, self.hang]
        await self.chance.choice(acts)()

    async def look(self) -> None:
        for worker, run in await begin(*self.chance.sample(self.workers, self.chance.randint(1, PARTS))):
            first = next(key for key in self.asked if key not in self.over)
            assert run.timer_key == first, "the first start that is not over"
            if run.timer_key not in self.begun:
                self.begun.append(run.timer_key)
            self.in_hand.append((worker, run))

    async def end(self) -> None:
        if not self.in_hand:
            return
        worker, run = self.in_hand.pop()
        outcome = self.chance.choice([RunOutcome.SUCCEEDED, RunOutcome.FAILED, RunOutcome.INTERRUPTED])
        if run.crashed:
            outcome = RunOutcome.CRASHED
        last = outcome is RunOutcome.SUCCEEDED or (outcome is not RunOutcome.INTERRUPTED and run.attempt > 2)
        how = await worker.end(run, outcome, delay_s=None if last else self.chance.choice([0.0, 5.0]), reason="chance")
        if how is How.ENDED and last:
            self.over.add(run.timer_key)

    async def hang(self) -> None:
        """Forget all current runs, as if the workers had hung until their leases ended."""
        self.in_hand.clear()

    async def pass_time(self) -> None:
        length_s = self.chance.choice([1.0, 6.0, LEASE_S + 1.0])
        await asyncio.gather(*(each.wait(length_s) for each in self.workers))

    async def ask(self) -> None:
        """Request one to three runs, and usually fire their timers; sometimes leave the timers for a later step."""
        self.asked += [int(await value(self.dsn, ASK)) for _ in range(self.chance.randint(1, 3))]
        if self.chance.random() < 0.8:
            await fire(self.shard)


@pytest.mark.parametrize("seed", range(12))
async def test_no_order_of_requests_begins_ends_and_deaths_changes_the_order_of_the_runs(
    dsn: str, shard: HolderClient, workers: list[JobWorker], seed: int
) -> None:
    story = QueueStory(dsn, shard, workers, seed)
    for _ in range(80):
        await story.step()

    await fire(shard)
    while len(story.over) < len(story.asked):
        await story.pass_time()
        await story.look()
        await story.end()

    assert story.begun == story.asked
    assert await is_whole(dsn) == []


SLOW = [f"slow{number:02}" for number in range(11)]
QUEUED = 100  # This number of starts for each job; one poll can't read the starts of all jobs.
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
        await ending.execute("select from shardclock.jobs for update")  # The end of a run also locks the job.
        assert (await worker.begin(running=[run.timer_key])).dropped == 0
    await ending.close(timeout=BOUND_S)

    waits = await worker.begin(running=[run.timer_key], ending=[run.timer_key])
    assert (waits.dropped, waits.queued, waits.runs) == (0, True, []), "its end is about to be written"
    assert (await worker.begin(running=[run.timer_key])).dropped == 1
