"""A run ends with a record, even if its worker or its app is lost, or its job's row is deleted or locked."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

import shardclock_server.workers.runs.outcome_writer
import shardclock_server.workers.runs.runner
from shardclock import CallOutcome, RunOrder
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.jobs.runs import How, end_runs
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.workers.user_process import ProcessDied
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import JobWorker, declare, fire, is_whole, job_of, outcomes, runs_of
from tests.support.jobs import job_spec
from tests.support.runs import FakeRunProcess, RunProcesses, running_jobs
from tests.support.waiting import eventually


async def is_in(dsn: str, state: str) -> bool:
    return (await job_of(dsn)).state == state


async def test_a_run_that_began_while_its_job_was_locked_shows_as_running_after_the_lock(
    dsn: str, shard: HolderClient
) -> None:
    spec, gate = job_spec(every_s=3_600.0), asyncio.Event()
    await declare(dsn, spec)
    await fire(shard)
    processes = RunProcesses(gate=gate)
    ready = asyncio.Event()

    async def until_ready() -> None:
        await ready.wait()

    def start(needs: Any) -> Any:
        process = processes(needs)
        process.ready = until_ready  # type: ignore[method-assign]
        return process

    async with running_jobs(dsn, start, [spec]):
        await eventually(lambda: is_in(dsn, "STARTING"))
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            await connection.execute("select from shardclock.jobs for update")
            ready.set()
            await eventually(lambda: bool(processes.orders))
            assert await is_in(dsn, "STARTING")
        await connection.close()
        await eventually(lambda: is_in(dsn, "RUNNING"))
        gate.set()
        await eventually(lambda: is_in(dsn, "SCHEDULED"))

    (run,) = await runs_of(dsn)
    assert run.running_at is not None


async def test_a_crash_with_an_end_that_was_sent_twice_is_not_a_late_run(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[How] = []

    async def end(*given: Any) -> dict[Claim, How]:
        how = await end_runs(*given)
        answers.extend(how.values())
        if len(answers) == 1:
            raise StoreUnavailable("the answer was lost")
        return how

    spec = job_spec(every_s=3_600.0, max_retries=0)
    await declare(dsn, spec)
    await fire(shard)
    async with JobWorker(dsn, 11) as lost:
        await lost.one()
        await end_holders(lost.session, [11], why="died")
    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "end_runs", end)

    async with running_jobs(dsn, RunProcesses(), [spec]):
        await eventually(lambda: How.LOST in answers)

    (run,) = [it for it in await runs_of(dsn) if it.outcome == "CRASHED"]
    assert run.late_at is None


async def test_a_worker_without_jobs_ends_the_runs_of_an_earlier_app(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.runner, "MAINTENANCE_S", 0.05)
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    async with JobWorker(dsn, 11) as lost:
        await lost.one()
        await end_holders(lost.session, [11], why="died")
    await declare(dsn)

    async with running_jobs(dsn, RunProcesses(), []):
        await eventually(lambda: value(dsn, "select run_timer_key is null from shardclock.jobs"))

    assert await outcomes(dsn) == {"CRASHED": 1}
    assert await is_whole(dsn) == []
    assert await value(dsn, "select shardclock.remove_job('refresh')")


async def test_a_run_is_killed_with_its_worker_even_if_postgres_refuses_the_end_of_the_run(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, processes = job_spec(every_s=3_600.0), RunProcesses(gate=asyncio.Event(), heeds=False)
    await declare(dsn, spec)
    await fire(shard)
    monkeypatch.setattr("shardclock_server.keepers.keeper.CALLS_END_S", 0.05)

    async def refuse() -> None:
        raise StoreUnavailable("no answer")

    async with running_jobs(dsn, processes, [spec]) as worker:
        await eventually(lambda: is_in(dsn, "RUNNING"))
        worker.deliveries._settler.settle_remaining = refuse  # type: ignore[method-assign]

    assert [process.killed for _, process in processes.started] == [True]


async def test_a_run_that_ends_at_a_drain_while_its_job_is_locked_for_a_moment_is_not_a_crash(
    dsn: str, shard: HolderClient
) -> None:
    spec, gate = job_spec(every_s=3_600.0), asyncio.Event()
    await declare(dsn, spec)
    await fire(shard)
    connection = await asyncpg.connect(dsn)
    lock = connection.transaction()
    async with running_jobs(dsn, RunProcesses(gate=gate), [spec]) as worker:
        await eventually(lambda: is_in(dsn, "RUNNING"))
        await lock.start()
        await connection.execute("select from shardclock.jobs for update")
        gate.set()
        await eventually(lambda: len(worker.runs._table.ending) == 1)
        write_rest = worker.runs.hand_back

        async def write_rest_then_unlock() -> None:
            writing = asyncio.ensure_future(write_rest())
            await asyncio.sleep(0.1)
            await lock.rollback()
            await writing

        worker.runs.hand_back = write_rest_then_unlock  # type: ignore[method-assign]
    await connection.close()

    assert await outcomes(dsn) == {"SUCCEEDED": 1}


RESTS_S = "select extract(epoch from not_before - last_finish)::float from shardclock.jobs"


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
    assert process.lives_s[-1] <= 1.0  # if the kill does not reach the process, the process soon exits by itself
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
