"""A later turn, worker or app finishes the unfinished work of an earlier turn, worker or app."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

import shardclock_server.workers.runs.outcome_writer
import shardclock_server.workers.runs.runner
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.jobs.runs import How, end_runs
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import HolderClient, value
from tests.support.job_runs import JobWorker, declare, fire, is_whole, job_of, outcomes, runs_of
from tests.support.jobs import job_spec
from tests.support.runs import RunProcesses, running_jobs
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


async def test_a_run_is_killed_with_its_worker_also_if_postgres_refuses_its_end(
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
