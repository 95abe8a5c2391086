"""A cancelled job stays cancelled, the newest start replaces older starts, and old runs are deleted in time."""

from __future__ import annotations

import pytest

from shardclock_server.jobs.states import JobStateName, RunOutcome
from shardclock_server.sql.jobs.declare import FORGOTTEN_MAX, KEPT_RUNS, prune_runs
from shardclock_server.sql.jobs.runs import BegunRun, advance_runs
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import JobWorker, declare, fire, is_whole, job_of, outcomes, runs_of
from tests.support.jobs import job_spec

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


async def test_a_start_that_was_not_cancelled_is_tried_again_after_a_cancelled_one(
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


async def test_the_later_start_runs_in_the_end_if_two_workers_see_one_start_each(dsn: str, shard: HolderClient) -> None:
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


async def test_old_runs_are_deleted_faster_than_they_come_and_skipped_starts_take_no_place_of_runs(
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
