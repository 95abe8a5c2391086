"""What a run does is written in its order, however late; a run that is over at once needs no statement for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import structlog

import shardclock_server.workers.runs.writer
from shardclock_server.jobs.ending import Ending
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun
from shardclock_server.sql.session import StatementRefused
from shardclock_server.workers.runs.table import RunTable
from shardclock_server.workers.runs.writer import RunWriter
from tests.support.factories import HolderClient, query
from tests.support.job_runs import JobWorker, declare, fire, job_of, outcomes, runs_of, said_of
from tests.support.jobs import job_spec


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    """Register a worker."""
    async with JobWorker(dsn, 11) as worker:
        yield worker


def writer_of(worker: JobWorker) -> RunWriter:
    """Make who writes about a worker's runs."""
    return RunWriter(worker.session, worker.holder, RunTable(10.0), asyncio.Event(), log=structlog.get_logger())


async def begun(dsn: str, shard: HolderClient, worker: JobWorker) -> tuple[BegunRun, RunWriter]:
    """Begin a run, and make who writes about it."""
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    return await worker.one(), writer_of(worker)


async def begun_each(dsn: str, shard: HolderClient, worker: JobWorker, *names: str) -> list[BegunRun]:
    """Begin a run of each of some jobs, and return them in this order."""
    await declare(dsn, *(job_spec(name, every_s=60.0) for name in names))
    await fire(shard)
    runs = {run.job: run for run in (await worker.begin()).runs}
    return [runs[name] for name in names]


async def test_a_run_that_goes_on_is_shown_as_running(
    dsn: str, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, writer = await begun(dsn, shard, worker)
    writer.call(run)
    await writer.write_advances()
    assert (await job_of(dsn)).state == "STARTING"

    monkeypatch.setattr(shardclock_server.workers.runs.writer, "CALLED_S", 0.0)
    await writer.write_advances()

    assert (await job_of(dsn)).state == "RUNNING"


async def test_that_a_run_was_called_is_not_written_over_that_it_is_to_end(
    dsn: str, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, writer = await begun(dsn, shard, worker)
    monkeypatch.setattr(shardclock_server.workers.runs.writer, "CALLED_S", 0.0)

    writer.call(run)
    writer.terminate(run, "wrong city")
    await writer.write_advances()
    await writer.write_advances()

    assert (await job_of(dsn)).state == "TERMINATING"


async def test_of_a_run_that_is_to_end_at_once_it_is_told_first_that_it_was_called(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    writer.terminate(run, "wrong city")
    writer.end(EndedRun(run, Ending(RunOutcome.CANCELED)))
    await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is not None
    assert (await said_of(dsn))[-5:] == ["STARTING", "RUNNING", "TERMINATING", "DISCARDED", "SCHEDULED"]


async def test_a_run_that_was_not_called_after_all_is_not_told_to_be(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    writer._table.uncall(run)
    writer.end(EndedRun(run, Ending(RunOutcome.INTERRUPTED, delay_s=0.0)))
    await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is None


async def test_the_end_of_a_run_that_was_over_at_once_tells_that_it_was_called(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    writer.end(EndedRun(run, Ending(RunOutcome.SUCCEEDED)))
    assert await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is not None
    assert (await said_of(dsn))[-3:] == ["RUNNING", "DELIVERED", "SCHEDULED"]
    assert not await writer.write_ends()


async def test_a_run_that_a_client_cancelled_at_once_is_told_by_its_end_to_have_been_called(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)

    writer.call(run)
    await query(dsn, "select shardclock.cancel_job('refresh', 'wrong city')")
    writer.terminate(run, "wrong city")
    writer.end(EndedRun(run, Ending(RunOutcome.CANCELED)))
    await writer.write_ends()

    (kept,) = await runs_of(dsn)
    assert kept.running_at is not None


async def test_an_end_that_postgres_refuses_is_ended_without_what_it_says_and_keeps_no_other_waiting(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    first, refused, last = await begun_each(dsn, shard, worker, "first", "refused", "last")
    writer = writer_of(worker)

    writer.end(EndedRun(first, Ending(RunOutcome.SUCCEEDED)))
    writer.end(EndedRun(refused, Ending(RunOutcome.FAILED, fails=True, reason="no module named a\0b"), log="\0"))
    writer.end(EndedRun(last, Ending(RunOutcome.SUCCEEDED)))
    assert await writer.write_ends()

    assert len(writer._table.ending) == 0
    assert await outcomes(dsn, "first") == await outcomes(dsn, "last") == {"SUCCEEDED": 1}
    (run,) = await runs_of(dsn, "refused")
    assert run.outcome == "FAILED"
    assert "can't be stored" in (run.reason or "")


async def test_an_end_that_postgres_refuses_whatever_it_says_is_left_to_its_lease_and_keeps_no_other_waiting(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    refused, other = await begun_each(dsn, shard, worker, "refused", "other")
    await query(dsn, "alter table shardclock.job_runs add check (job <> 'refused' or outcome is null)")
    writer = writer_of(worker)

    writer.end(EndedRun(refused, Ending(RunOutcome.SUCCEEDED)))
    writer.end(EndedRun(other, Ending(RunOutcome.SUCCEEDED)))
    assert await writer.write_ends()

    assert len(writer._table.ending) == 0
    assert await outcomes(dsn, "other") == {"SUCCEEDED": 1}
    assert await outcomes(dsn, "refused") == {"going": 1}


async def test_ends_that_postgres_refuses_for_what_they_do_not_say_are_kept(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    run, writer = await begun(dsn, shard, worker)
    await query(dsn, "alter table shardclock.job_runs rename to job_runs_away")

    writer.end(EndedRun(run, Ending(RunOutcome.SUCCEEDED)))
    with pytest.raises(StatementRefused):
        await writer.write_ends()
    await query(dsn, "alter table shardclock.job_runs_away rename to job_runs")
    assert await writer.write_ends()

    assert await outcomes(dsn) == {"SUCCEEDED": 1}


async def test_ends_of_locked_jobs_keep_no_others_waiting_however_many_they_are(
    dsn: str, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.writer, "ENDS_MAX", 1)
    locked, other = await begun_each(dsn, shard, worker, "locked", "other")
    writer = writer_of(worker)
    writer.end(EndedRun(locked, Ending(RunOutcome.SUCCEEDED)))
    writer.end(EndedRun(other, Ending(RunOutcome.SUCCEEDED)))

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
