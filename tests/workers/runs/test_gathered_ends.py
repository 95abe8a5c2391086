"""The end of a run waits, so that one statement writes several ends; starts and crashes do not wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import shardclock_server.workers.runs.outcome_writer
import shardclock_server.workers.runs.runner
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.jobs.runs import Begun, EndedRun, How, begin_runs, end_runs
from shardclock_server.sql.session import Session
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.worker import Worker
from tests.support.factories import HolderClient, query
from tests.support.job_runs import declare, fire, is_whole, outcomes, runs_of
from tests.support.jobs import job_spec
from tests.support.runs import FakeRunProcess, RunProcesses, running_jobs
from tests.support.waiting import eventually

SELDOM = WorkerSettings(delivery_poll_s=30.0, heartbeat_s=0.02, run_places=2)
SPECS = [job_spec("first", every_s=3_600.0, priority=1), job_spec()]


@pytest.fixture
def written_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moments: list[float] = []

    async def end(session: Session, holder: int, ended: Sequence[EndedRun]) -> dict[Claim, How]:
        moments.append(time.monotonic())
        return await end_runs(session, holder, ended)

    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "end_runs", end)
    return moments


@asynccontextmanager
async def one_has_ended(dsn: str, shard: HolderClient) -> AsyncIterator[tuple[Worker, asyncio.Event]]:
    """Run two jobs until the end of the first run is stored; the second run ends when the test opens the gate."""
    gate, processes = asyncio.Event(), RunProcesses()

    def start(needs: RunResources) -> FakeRunProcess:
        process = processes(needs)
        process.gate = gate if len(processes.started) == 2 else None
        return process

    await declare(dsn, *SPECS)
    await query(dsn, "select shardclock.run_job('refresh')")
    await fire(shard)
    async with running_jobs(dsn, start, SPECS, SELDOM) as worker:

        def are_called() -> bool:
            worker.runs.poll_soon()
            return len(processes.orders) == 2

        await eventually(are_called)
        await eventually(lambda: _counts(dsn, "first", 1))
        yield worker, gate


async def test_after_the_end_of_a_run_the_next_end_waits_for_further_ends(
    dsn: str, shard: HolderClient, written_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "ENDS_GAP_S", 0.5)

    async with one_has_ended(dsn, shard) as (_, gate):
        gate.set()
        await eventually(lambda: _counts(dsn, "refresh", 1))

    first_s, second_s = written_s
    assert second_s - first_s >= 0.49


async def test_a_start_is_not_skipped_because_of_a_run_with_an_unwritten_end(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "ENDS_GAP_S", 60.0)

    async with one_has_ended(dsn, shard) as (worker, gate):
        gate.set()
        await eventually(lambda: len(worker.runs._table.ending) == 1)
        await query(dsn, "select shardclock.run_job('refresh')")
        await fire(shard)
        worker.runs.poll_soon()
        await eventually(lambda: _counts(dsn, "refresh", 1))

    assert await outcomes(dsn) == {"SUCCEEDED": 2}
    assert await is_whole(dsn) == []


async def test_a_start_is_not_skipped_because_of_a_run_that_ended_while_another_end_was_written(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_has_ended(dsn, shard) as (worker, gate):
        writer, written = worker.runs._writer, asyncio.Event()

        async def end(session: Session, holder: int, ended: Sequence[EndedRun]) -> dict[Claim, How]:
            await written.wait()
            return await end_runs(session, holder, ended)

        monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "end_runs", end)
        await query(dsn, "select shardclock.run_job('first')")
        await fire(shard)
        worker.runs.poll_soon()
        await eventually(lambda: len(writer._table.ending) == 1)
        gate.set()
        await eventually(lambda: len(writer._table.ending) == 2)
        await query(dsn, "select shardclock.run_job('refresh')")
        await fire(shard)
        worker.runs.poll_soon()
        written.set()
        await eventually(lambda: _counts(dsn, "refresh", 2))

    assert await outcomes(dsn) == {"SUCCEEDED": 2}


async def test_a_run_with_an_unwritten_end_has_not_crashed_by_any_clock(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end can't be written, because its job is locked. Then the lease expires, and the worker polls for starts."""
    looks: list[Begun] = []

    async def begin(*given: Any, **named: Any) -> Begun:
        looks.append(await begin_runs(*given, **named))
        return looks[-1]

    async def find_locked(_session: Session, _holder: int, ended: Sequence[EndedRun]) -> dict[Claim, How]:
        return {it.run.claim: How.LOCKED for it in ended}

    async with one_has_ended(dsn, shard) as (worker, gate):
        with monkeypatch.context() as locked:
            locked.setattr(shardclock_server.workers.runs.outcome_writer, "end_runs", find_locked)
            gate.set()
            await eventually(lambda: len(worker.runs._table.ending) == 1)
            await query(dsn, "update shardclock.deliveries set claimed_until = now() - interval '1 second'")
            locked.setattr(shardclock_server.workers.runs.runner, "begin_runs", begin)
            worker.runs.poll_soon()
            await eventually(lambda: bool(looks))
        worker.runs.poll_soon()
        await eventually(lambda: _counts(dsn, "refresh", 1))

    assert looks[0].runs == []
    assert [(it.outcome, it.attempt) for it in await runs_of(dsn)] == [("SUCCEEDED", 1)]


async def _counts(dsn: str, job: str, successes: int) -> bool:
    return (await outcomes(dsn, job))["SUCCEEDED"] >= successes
