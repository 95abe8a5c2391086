"""Jobs have none of the known faults of TimescaleDB's scheduler and of similar schedulers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from shardclock import CallOutcome, Completed, Failed, RunOrder
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.declare import maintain_jobs, prune_runs, repair_job_waits
from shardclock_server.sql.jobs.runs import BegunRun
from shardclock_server.workers.settings import WorkerSettings
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import JobWorker, declare, fire, is_whole, job_of, runs_of, said_of
from tests.support.jobs import job_spec
from tests.support.runs import RunProcesses, running_jobs
from tests.support.waiting import eventually

ONE_PLACE = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02, run_places=1)
YEAR_S = 365 * 86_400.0


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    async with JobWorker(dsn, 11) as hand:
        yield hand


@pytest.fixture
async def another(dsn: str) -> AsyncIterator[JobWorker]:
    """Yield a second worker that still has all slots from an old assignment."""
    async with JobWorker(dsn, 12) as hand:
        yield hand


async def begun(dsn: str, shard: HolderClient, worker: JobWorker, name: str = "refresh") -> BegunRun:
    """Fire the only due start, and start its run."""
    await fire(shard)
    run = await worker.one()
    assert run.job == name
    return run


async def tended(worker: JobWorker) -> dict[str, str]:
    """Run the periodic maintenance of jobs."""
    return await repair_job_waits(worker.session, worker.holder) | await maintain_jobs(worker.session, worker.holder)


async def has_succeeded(dsn: str, name: str, times: int = 1) -> bool:
    return (await job_of(dsn, name)).successes >= times


# A next start at minus infinity stops a job for good.


@pytest.mark.parametrize("moment", ["'-infinity'", "'infinity'", "null"])
async def test_a_next_start_that_never_comes_can_not_be_stored(dsn: str, moment: str) -> None:
    await declare(dsn, job_spec(every_s=60.0))

    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await query(dsn, f"update shardclock.timers set due_date = {moment} where name = 'job:refresh'")

    assert (await job_of(dsn)).next_start is not None


@pytest.mark.parametrize("moment", ["-infinity", "infinity"])
async def test_after_a_failover_a_job_starts_again_whatever_its_stored_moments_are(
    dsn: str, shard: HolderClient, worker: JobWorker, moment: str
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await worker.end(await begun(dsn, shard, worker))
    await query(dsn, "delete from shardclock.timers")
    await query(
        dsn, f"update shardclock.jobs set last_start = '{moment}', last_finish = '{moment}', not_before = '{moment}'"
    )

    await tended(worker)

    next_start = (await job_of(dsn)).next_start
    assert next_start is not None
    assert abs(next_start - await value(dsn, "select now()")) < timedelta(seconds=61)
    await query(dsn, "update shardclock.timers set due_date = now()")
    await worker.end(await begun(dsn, shard, worker))
    assert (await job_of(dsn)).successes == 2


# A new or changed job waits for a restart of the scheduler.


async def test_a_new_or_changed_job_needs_no_restart_of_its_worker(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses()
    spec = job_spec(every_s=3_600.0, config='{"city": "Rome"}')
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: has_succeeded(dsn, "refresh"))

        await query(dsn, "select shardclock.configure_job('refresh', '{\"city\": \"Oslo\"}')")
        new = {"name": "refresh-eu", "function": spec.reference, "every_s": 3_600, "config": {"city": "Bern"}}
        await query(dsn, "select shardclock.apply_job($1)", json.dumps(new))
        await query(dsn, "select shardclock.run_job('refresh')")
        await fire(shard)
        await eventually(lambda: has_succeeded(dsn, "refresh", 2))
        await eventually(lambda: has_succeeded(dsn, "refresh-eu"))

    assert {(order.job, json.loads(order.config or "")["city"]) for order in processes.orders} == {
        ("refresh", "Rome"), ("refresh", "Oslo"), ("refresh-eu", "Bern")
    }  # fmt: skip


# A crash during a run is not counted, or the next start is lost with the crash.


# The pause after failures grows beyond the interval.


async def test_after_a_failure_a_job_never_pauses_for_longer_than_its_interval(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0, max_retries=1_000))
    run = await begun(dsn, shard, worker)

    await worker.end(run, RunOutcome.FAILED, delay_s=3_600.0, reason="no")

    job = await job_of(dsn)
    assert job.last_finish is not None
    assert (job.next_start, job.retry_at) == (job.last_finish + timedelta(seconds=60), None)
    assert (await said_of(dsn))[-2:] == ["DEAD", "SCHEDULED"]
    assert await is_whole(dsn) == []


async def test_a_start_without_code_in_any_worker_waits_longer_than_its_interval(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=0.1))
    run = await begun(dsn, shard, worker)

    await worker.end(run, RunOutcome.INTERRUPTED, delay_s=5.0)

    assert (await job_of(dsn)).next_start is None
    assert (await worker.begin()).runs == []
    await worker.wait(5.1)
    assert (await worker.one()).timer_key == run.timer_key


# A run that reaches its max_runtime is ended, but not counted.


# A job is disabled, enabled or deleted while it runs.


async def test_a_job_that_is_disabled_and_enabled_during_a_run_continues_after_this_run(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    run = await begun(dsn, shard, worker)
    assert await value(dsn, "select shardclock.disable_job('refresh')") == "TERMINATING"
    assert await value(dsn, "select shardclock.enable_job('refresh')") == "TERMINATING"

    await worker.end(run, RunOutcome.CANCELED)

    job = await job_of(dsn)
    assert job.last_finish is not None
    assert (job.state, job.next_start) == ("SCHEDULED", job.last_finish + timedelta(seconds=60))
    assert await is_whole(dsn) == []


async def test_the_deletion_of_a_running_job_ends_its_run_and_leaves_no_rows(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses(gate=asyncio.Event(), heeds=False)
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: bool(processes.orders))

        await query(dsn, "delete from shardclock.jobs")
        await eventually(lambda: processes.started[0][1].killed, within_s=10.0)  # the worker's lease lasts 20 s

    async with JobWorker(dsn, 12) as another:
        found = await another.begin()
        assert (found.runs, found.dropped) == ([], 1)
        await prune_runs(another.session, another.holder)
    assert await runs_of(dsn) == []
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 0


# The clock jumps.


async def test_a_job_that_ran_while_the_clock_was_a_year_ahead_starts_an_interval_after_it_was_set_back(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    await worker.wait(YEAR_S)
    await worker.end(await worker.one(), RunOutcome.CRASHED, rest_s=5.0)
    worker.now = None

    assert list(await tended(worker)) == ["refresh"]

    next_start = (await job_of(dsn)).next_start
    assert next_start is not None
    assert next_start - await value(dsn, "select now()") <= timedelta(seconds=60)
    await query(dsn, "update shardclock.timers set due_date = now()")
    await worker.end(await begun(dsn, shard, worker))
    assert await tended(worker) == {}


async def test_an_attempt_that_waits_for_a_clock_that_was_a_year_ahead_is_made(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    await worker.wait(YEAR_S)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=30.0, reason="no")
    worker.now = None
    assert (await worker.begin()).runs == []

    await tended(worker)

    assert (await worker.one()).attempt == 2


async def test_the_maintenance_of_jobs_keeps_a_next_start_that_an_operator_has_moved(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await worker.end(await begun(dsn, shard, worker))
    await query(dsn, "select shardclock.change_system_timer('reschedule', name => 'job:refresh', delay => 'P3D')")

    assert await tended(worker) == {}

    next_start = (await job_of(dsn)).next_start
    assert next_start is not None
    assert next_start - await value(dsn, "select now()") > timedelta(days=2)


async def test_a_clock_that_jumps_ahead_by_a_day_makes_one_start_and_not_one_for_each_minute(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await worker.end(await begun(dsn, shard, worker))
    shard.now = await value(dsn, "select now() + interval '1 day'")
    await worker.wait(86_400.0)

    await worker.end(await begun(dsn, shard, worker))

    assert await fire(shard) == 0
    assert (await worker.begin()).runs == []
    assert (await job_of(dsn)).runs == 2


# The interval counts from the start of a run, so a slow job runs again without a pause.


# A failing job, or jobs with a higher priority, use the worker's whole capacity.


async def test_a_job_that_always_fails_does_not_block_the_only_place(dsn: str, shard: HolderClient) -> None:
    def fails_if_bad(order: RunOrder) -> CallOutcome:
        return Failed("ValueError: no") if order.job == "bad" else Completed()

    processes = RunProcesses(fails_if_bad)
    specs = [
        job_spec("bad", every_s=0.1, priority=1, max_retries=1_000, retry_period_s=0.1),
        job_spec("good", every_s=0.1, priority=4),
    ]
    await declare(dsn, *specs)

    async def fires_and_has_succeeded() -> bool:
        await fire(shard)
        return await has_succeeded(dsn, "good", 3)

    async with running_jobs(dsn, processes, specs, ONE_PLACE):
        await eventually(fires_and_has_succeeded)

    bad = await job_of(dsn, "bad")
    assert (bad.successes, bad.state) == (0, "SCHEDULED")
    assert bad.failures >= 3


@pytest.mark.parametrize(("waited_min", "first"), [(4, "urgent"), (14, "urgent"), (16, "patient")])
async def test_if_slots_are_scarce_the_priority_decides_and_no_job_waits_forever(
    dsn: str, shard: HolderClient, worker: JobWorker, waited_min: int, first: str
) -> None:
    await declare(dsn, job_spec("urgent", every_s=60.0, priority=1), job_spec("patient", every_s=60.0, priority=4))
    await fire(shard)
    await query(
        dsn,
        "update shardclock.deliveries set next_attempt_at = now() - $1 * interval '1 minute'"
        " where target = 'job:patient'",
        waited_min,
    )

    (run,) = (await worker.begin(places=1)).runs

    assert run.job == first
