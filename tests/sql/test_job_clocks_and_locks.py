"""A job loses no run and no retry if the clock is set back, or if a client locks its rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardclock_server.jobs.states import JobStateName, RunOutcome
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.jobs.declare import REPAIRED_MAX, repair_job_waits
from shardclock_server.sql.jobs.runs import advance_runs
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import LEASE_S, JobWorker, declare, fire, is_whole, job_of, outcomes, said_of
from tests.support.jobs import job_spec

RUNNING = JobStateName.RUNNING.value
DUE_IN_A_DAY = "select count(*) from shardclock.timers where name = $1 and due_date < now() + interval '1 day'"


async def test_a_job_locked_by_a_client_uses_no_slot_of_a_worker(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    # Given four jobs that a client has locked, and a later start of another job
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


async def test_a_crashed_run_is_found_without_a_free_slot_and_uses_no_slot(
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
    """Change a run's rows as if the clock had been set back since the run began."""
    await query(
        dsn,
        "update shardclock.deliveries set claimed_until = claimed_until + $1, next_attempt_at = next_attempt_at - $1",
        by,
    )


async def test_a_worker_whose_clock_is_set_back_does_not_count_its_own_run_as_crashed(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    await set_back(dsn, timedelta(minutes=10))

    assert (await worker.begin(running=[run.timer_key])).runs == []

    assert await worker.end(run) == "ENDED"
    assert await outcomes(dsn) == {"SUCCEEDED": 1}


async def test_after_the_clock_was_set_back_a_crash_is_found_within_one_lease(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    await worker.one()
    await set_back(dsn, timedelta(minutes=10))

    found = await another.one()

    assert found.crashed
    assert found.lease_left == timedelta(seconds=LEASE_S)


async def test_a_worker_must_send_a_runs_states_again_while_its_job_is_locked(
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


async def test_an_interrupted_run_is_retried_even_if_the_new_rule_has_no_due_date_yet(
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


async def ask_for_run(dsn: str, shard: HolderClient) -> None:
    """Make a start of a scheduled job due, as after a client's request."""
    await declare(dsn, job_spec(schedule="0 3 * * *", max_retries=3))
    await query(dsn, "select shardclock.run_job('refresh')")
    await fire(shard)


@pytest.mark.parametrize("schedule", ["0 3 * * *", "R/PT1H"])
async def test_a_start_on_a_grid_that_was_planned_while_the_clock_was_ahead_is_planned_again(
    dsn: str, worker: JobWorker, schedule: str
) -> None:
    # Given a start that a shard planned 40 days from now, and another job's start that was planned today
    await declare(dsn, job_spec(schedule=schedule), job_spec("other", schedule=schedule))
    await query(
        dsn,
        "update shardclock.timers set created_at = now() + interval '40 days', due_date = now() + interval '41 days'"
        " where name = 'job:refresh'",
    )

    repaired = await repair_job_waits(worker.session, worker.holder)

    assert list(repaired) == ["refresh"]
    assert await value(dsn, DUE_IN_A_DAY, "job:refresh") == await value(dsn, DUE_IN_A_DAY, "job:other") == 1
    assert await repair_job_waits(worker.session, worker.holder) == {}
    assert await is_whole(dsn) == []


async def test_a_start_that_fell_due_while_the_clock_was_ahead_begins_once_it_is_set_right(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await ask_for_run(dsn, shard)
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() + interval '40 days'")
    assert (await worker.begin()).runs == []

    assert list(await repair_job_waits(worker.session, worker.holder)) == ["refresh"]

    assert (await worker.one()).job == "refresh"


async def test_a_retry_with_a_long_wait_does_not_count_as_planned_by_a_clock_ahead(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await ask_for_run(dsn, shard)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=1_800.0)
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 1

    assert await repair_job_waits(worker.session, worker.holder) == {}


async def test_a_removed_job_leaves_no_start_to_the_next_job_of_its_name(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    await client.value("select shardclock.add_job('eu', 'refresh', every => interval '1 hour')")
    await fire(shard)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=60.0)
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 1

    assert await client.value("select shardclock.remove_job('eu')")
    assert (await said_of(dsn, "eu"))[-1] == "DISCARDED"
    await client.value("select shardclock.add_job('eu', 'refresh', every => interval '1 hour')")
    await worker.wait(120.0)

    assert (await worker.begin()).runs == []


@pytest.mark.parametrize("failed_attempts", [0, 1])
async def test_a_run_that_began_while_the_clock_was_ahead_is_found_when_it_crashes(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker, failed_attempts: int
) -> None:
    await ask_for_run(dsn, shard)
    await another.one()
    ahead = "now() + interval '40 days'"
    await query(dsn, f"update shardclock.deliveries set next_attempt_at = {ahead}, claimed_until = {ahead}")
    await query(dsn, "update shardclock.deliveries set failed_attempts = $1", failed_attempts)
    await end_holders(another.session, [another.holder], why="died")
    assert (await worker.begin()).runs == []

    assert list(await repair_job_waits(worker.session, worker.holder)) == ["refresh"]

    assert (await worker.one()).crashed


async def test_the_pause_after_a_crash_is_kept_when_another_start_of_the_job_waits_for_the_old_clock(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await ask_for_run(dsn, shard)
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() + interval '40 days'")
    await query(dsn, "update shardclock.jobs set not_before = now() + interval '20 s'")

    assert list(await repair_job_waits(worker.session, worker.holder)) == ["refresh"]

    assert (await worker.begin()).runs == [], "the process of the run that crashed may still live"


async def test_a_start_that_an_operator_moved_after_the_clock_was_corrected_is_kept(
    dsn: str, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(schedule="0 3 * * *"))
    await query(
        dsn,
        "update shardclock.timers set created_at = now() + interval '40 days', due_date = now() + interval '41 days',"
        " anchor_occurrence = 0",
    )
    await query(
        dsn,
        "select shardclock.change_system_timer('reschedule', name => 'job:refresh',"
        " due_date => now() + interval '9 days')",
    )

    assert await repair_job_waits(worker.session, worker.holder) == {}

    assert await value(dsn, "select due_date < now() + interval '10 days' from shardclock.timers")


async def test_many_jobs_are_repaired_a_few_at_a_time(dsn: str, worker: JobWorker) -> None:
    await declare(dsn, *(job_spec(f"job-{n}", schedule="0 3 * * *") for n in range(REPAIRED_MAX + 1)))
    await query(dsn, "update shardclock.timers set created_at = now() + interval '40 days'")

    repaired = [len(await repair_job_waits(worker.session, worker.holder)) for _ in range(3)]

    assert repaired == [REPAIRED_MAX, 1, 0]


async def test_a_timer_locked_by_a_client_keeps_no_other_job_waiting_for_the_old_clock(
    dsn: str, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(schedule="0 3 * * *"), job_spec("other", schedule="0 3 * * *"))
    await query(dsn, "update shardclock.timers set created_at = now() + interval '40 days'")
    await client.begin()
    await client.value("select count(*) from (select from shardclock.timers where name = 'job:refresh' for update) t")

    assert list(await repair_job_waits(worker.session, worker.holder)) == ["other"]

    await client.rollback()
    assert list(await repair_job_waits(worker.session, worker.holder)) == ["refresh"]
