"""Runs at the end or the loss of their worker."""

from __future__ import annotations

import asyncio

import pytest

from shardclock import CallOutcome, RunOrder
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.workers.user_process import ProcessDied
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import JobWorker, declare, fire, job_of, outcomes, runs_of
from tests.support.jobs import job_spec
from tests.support.runs import FakeRunProcess, RunProcesses, running_jobs
from tests.support.waiting import eventually

RESTS_S = "select extract(epoch from not_before - last_finish)::float from shardclock.jobs"


async def is_in(dsn: str, state: str) -> bool:
    return (await job_of(dsn)).state == state


@pytest.mark.parametrize(("answers_polls", "least_s", "most_s"), [(True, 0.5, 1.0), (False, 5.0, 20.0)])
async def test_no_run_begins_while_an_unreachable_process_may_live(
    dsn: str, shard: HolderClient, answers_polls: bool, least_s: float, most_s: float
) -> None:
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)

    processes = RunProcesses(gate=asyncio.Event(), heeds=False, answers_polls=answers_polls)

    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: is_in(dsn, "RUNNING"))

    assert await outcomes(dsn) == {"INTERRUPTED": 1}
    ((_, process),) = processes.started
    assert process.lives_s[-1] <= 1.0  # the process ends itself soon if the kill does not reach it
    assert least_s <= await value(dsn, RESTS_S) <= most_s


async def test_a_run_over_its_time_at_the_end_of_its_worker_has_failed(dsn: str, shard: HolderClient) -> None:
    spec = job_spec(every_s=60.0, max_runtime_s=0.05, grace_s=30.0, max_retries=5)
    await declare(dsn, spec)
    await fire(shard)

    async with running_jobs(dsn, RunProcesses(gate=asyncio.Event(), heeds=False), [spec]):
        await eventually(lambda: is_in(dsn, "TERMINATING"))

    (run,) = await runs_of(dsn)
    assert run.outcome == RunOutcome.TIMED_OUT
    assert "its max_runtime" in (run.reason or "")
    assert (await job_of(dsn)).failures == 1


async def test_a_crashed_run_is_a_crash_though_its_policy_has_become_invalid(dsn: str, shard: HolderClient) -> None:
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with JobWorker(dsn, holder=11) as worker:
        await worker.one()
    await query(dsn, 'update shardclock.jobs set policy = \'{"grace_s": "long"}\'')
    async with HolderClient(dsn, holder=1) as hand:
        await end_holders(hand.session, [worker.holder], why="dead")
        await query(dsn, "update shardclock.deliveries set claimed_by = null, claimed_until = null")

    async with running_jobs(dsn, RunProcesses(), [spec]):
        await eventually(lambda: _has_crashed(dsn))

    assert await outcomes(dsn) == {"CRASHED": 1}
    assert await value(dsn, RESTS_S) >= 5.0


async def test_the_end_of_a_run_is_written_though_its_process_can_t_be_killed(dsn: str, shard: HolderClient) -> None:
    class Immortal(FakeRunProcess):
        def kill(self) -> None:
            raise RuntimeError("Ray is away")

    def dies(_: RunOrder) -> CallOutcome:
        raise ProcessDied("the run's process ended: exit code 9")

    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)

    async with running_jobs(dsn, lambda _: Immortal(dies), [spec]):
        await eventually(lambda: _has_crashed(dsn))

    assert await outcomes(dsn) == {"CRASHED": 1}


async def _has_crashed(dsn: str) -> bool:
    return (await job_of(dsn)).crashes == 1
