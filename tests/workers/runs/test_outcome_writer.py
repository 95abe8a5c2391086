"""The worker writes a run's advances (new states) in their order; it writes no advances of a short run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import structlog

import shardclock_server.workers.runs.outcome_writer
from shardclock_server.jobs.next_attempt import RunEnding
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun
from shardclock_server.sql.session import StatementRefused
from shardclock_server.workers.runs.outcome_writer import OutcomeWriter
from shardclock_server.workers.runs.table import RunTable
from tests.support.factories import HolderClient, query
from tests.support.job_runs import JobWorker, declare, fire, job_of, outcomes, runs_of, said_of
from tests.support.jobs import job_spec


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    async with JobWorker(dsn, 11) as worker:
        yield worker


def writer_of(worker: JobWorker) -> OutcomeWriter:
    return OutcomeWriter(worker.session, worker.holder, RunTable(10.0), asyncio.Event(), log=structlog.get_logger())


async def begun(dsn: str, shard: HolderClient, worker: JobWorker) -> tuple[BegunRun, OutcomeWriter]:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    return await worker.one(), writer_of(worker)


async def begun_each(dsn: str, shard: HolderClient, worker: JobWorker, *names: str) -> list[BegunRun]:
    await declare(dsn, *(job_spec(name, every_s=60.0) for name in names))
    await fire(shard)
    runs = {run.job: run for run in (await worker.begin()).runs}
    return [runs[name] for name in names]


async def test_a_long_run_shows_as_running(
    dsn: str, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, writer = await begun(dsn, shard, worker)
    writer.call(run)
    await writer.write_advances()
    assert (await job_of(dsn)).state == "STARTING"

    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "CALLED_S", 0.0)
    await writer.write_advances()

    assert (await job_of(dsn)).state == "RUNNING"


async def test_running_is_not_written_after_terminating(
    dsn: str, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, writer = await begun(dsn, shard, worker)
    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "CALLED_S", 0.0)

    writer.call(run)
    writer.terminate(run, "wrong city")
    await writer.write_advances()
    await writer.write_advances()

    assert (await job_of(dsn)).state == "TERMINATING"


async def test_running_is_written_before_terminating(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    writer.terminate(run, "wrong city")
    writer.end(EndedRun(run, RunEnding(RunOutcome.CANCELED)))
    await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is not None
    assert (await said_of(dsn))[-5:] == ["STARTING", "RUNNING", "TERMINATING", "DISCARDED", "SCHEDULED"]


async def test_a_run_without_a_call_does_not_show_as_running(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    writer._table.forget_call(run)
    writer.end(EndedRun(run, RunEnding(RunOutcome.INTERRUPTED, delay_s=0.0)))
    await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is None


async def test_the_end_of_a_short_run_contains_its_call(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    writer.end(EndedRun(run, RunEnding(RunOutcome.SUCCEEDED)))
    assert await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is not None
    assert (await said_of(dsn))[-3:] == ["RUNNING", "DELIVERED", "SCHEDULED"]
    assert not await writer.write_ends()


async def test_the_end_of_a_cancelled_short_run_contains_its_call(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    await query(dsn, "select shardclock.cancel_job('refresh', 'wrong city')")
    writer.terminate(run, "wrong city")
    writer.end(EndedRun(run, RunEnding(RunOutcome.CANCELED)))
    await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is not None


async def test_an_end_of_a_run_with_a_refused_text_is_written_without_the_text_and_delays_no_other_end(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    first, refused, last = await begun_each(dsn, shard, worker, "first", "refused", "last")
    writer = writer_of(worker)

    writer.end(EndedRun(first, RunEnding(RunOutcome.SUCCEEDED)))
    writer.end(EndedRun(refused, RunEnding(RunOutcome.FAILED, fails=True, reason="no module named a\0b"), log="\0"))
    writer.end(EndedRun(last, RunEnding(RunOutcome.SUCCEEDED)))
    assert await writer.write_ends()

    assert len(writer._table.ending) == 0
    assert await outcomes(dsn, "first") == await outcomes(dsn, "last") == {"SUCCEEDED": 1}
    (run,) = await runs_of(dsn, "refused")
    assert run.outcome == "FAILED"
    assert "can't be stored" in (run.reason or "")


async def test_an_end_that_postgres_always_refuses_waits_for_the_lease_and_delays_no_other_end(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    refused, other = await begun_each(dsn, shard, worker, "refused", "other")
    await query(dsn, "alter table shardclock.job_runs add check (job <> 'refused' or outcome is null)")
    writer = writer_of(worker)

    writer.end(EndedRun(refused, RunEnding(RunOutcome.SUCCEEDED)))
    writer.end(EndedRun(other, RunEnding(RunOutcome.SUCCEEDED)))
    assert await writer.write_ends()

    assert len(writer._table.ending) == 0
    assert await outcomes(dsn, "other") == {"SUCCEEDED": 1}
    assert await outcomes(dsn, "refused") == {"going": 1}


async def test_ends_are_kept_if_postgres_refuses_the_statement_itself(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)
    await query(dsn, "alter table shardclock.job_runs rename to job_runs_away")

    writer.end(EndedRun(run, RunEnding(RunOutcome.SUCCEEDED)))
    with pytest.raises(StatementRefused):
        await writer.write_ends()
    await query(dsn, "alter table shardclock.job_runs_away rename to job_runs")
    assert await writer.write_ends()

    assert await outcomes(dsn) == {"SUCCEEDED": 1}


async def test_many_ends_of_runs_of_locked_jobs_delay_no_other_ends(
    dsn: str, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "ENDS_MAX", 1)
    locked, other = await begun_each(dsn, shard, worker, "locked", "other")
    writer = writer_of(worker)
    writer.end(EndedRun(locked, RunEnding(RunOutcome.SUCCEEDED)))
    writer.end(EndedRun(other, RunEnding(RunOutcome.SUCCEEDED)))

    client = await asyncpg.connect(dsn)
    try:
        async with client.transaction():
            await client.execute("select from shardclock.jobs where name = 'locked' for update")
            assert await writer.write_ends()
            assert await outcomes(dsn, "other") == {"SUCCEEDED": 1}
            assert len(writer._table.ending) == 1
    finally:
        await client.close()
    assert await writer.write_ends()
    assert await outcomes(dsn, "locked") == {"SUCCEEDED": 1}
