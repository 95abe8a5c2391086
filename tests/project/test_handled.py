"""Test the benchmarks of completed work: completions in the database, and calls of handlers on a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psutil
import pytest

from benchmarks.cases import handled
from benchmarks.cases.case import NotForIt
from benchmarks.cases.handled import completed
from benchmarks.contenders import SqlAlone
from benchmarks.contenders.contender import Batch, Contender, Firing
from tests.support.factories import BOUND_S, query
from tests.support.waiting import eventually

ENDED = "select intent, due_date, recorded_at from shardclock.command_log where intent <> 'TRIGGERED'"


class Called(Contender):
    """A contender with three called jobs; their rows stay until the test deletes them."""

    left = "select count(*) from public.job"

    def __init__(self, dsn: str, calls: int = 3) -> None:
        super().__init__()
        self.dsn, self.calls, self.asked = dsn, calls, 0

    async def put(self, batch: Batch) -> None:
        """Insert nothing: the test inserts the rows."""

    async def start(self) -> None:
        """Start nothing."""

    async def stop(self) -> None:
        """Stop nothing."""

    async def count(self) -> int:
        self.asked += 1
        return self.calls

    async def firings(self) -> Sequence[Firing]:
        return []

    def processes(self) -> list[psutil.Process]:
        return []


@pytest.fixture
async def called(dsn: str) -> Called:
    """Make a contender with three jobs that were called and are not completed."""
    await query(dsn, "create table public.job as select generate_series(1, 3) as id")
    return Called(dsn)


async def test_a_called_job_counts_only_after_its_completion_in_the_database(called: Called) -> None:
    waiting = asyncio.create_task(completed(called, 3, within_s=BOUND_S))
    await eventually(lambda: called.asked > 3)
    assert not waiting.done()

    began_s = time.time()
    await query(called.dsn, "delete from public.job")

    assert await waiting > began_s


async def test_jobs_that_are_never_completed_are_reported(called: Called) -> None:
    with pytest.raises(NotForIt, match="3 of 3 were not completed within 0 s"):
        await completed(called, 3, within_s=0.1)


async def test_the_database_is_not_queried_before_all_jobs_were_called(called: Called) -> None:
    called.left = "select 1 / 0"
    with pytest.raises(NotForIt, match="1 of 4 were not completed"):
        await completed(called, 4, within_s=0.1)


class SmallSqlAlone(SqlAlone):
    """Our SQL alone, with few timers."""

    drained = 2_000


@asynccontextmanager
async def opened(contender: Contender, dsn: str) -> AsyncIterator[None]:
    await contender.open(dsn)
    try:
        yield
    finally:
        await contender.close()


@pytest.mark.exhaustive
async def test_the_contender_that_runs_only_our_sql_measures_from_the_due_date_to_the_last_record(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handled, "MARGIN_S", 3.0)
    contender = SmallSqlAlone()
    async with opened(contender, dsn):
        figures = await handled.measure(contender)

    ended = await query(dsn, ENDED)
    due, count = max(row["due_date"] for row in ended), 2_000
    herd = [row["recorded_at"] for row in ended if row["due_date"] == due]
    assert ({row["intent"] for row in ended}, len(ended), len(herd)) == ({"DELIVERED"}, count + 200, count)
    assert figures["took"] > (max(herd) - due).total_seconds()
    assert figures["per_s"] == pytest.approx(count / figures["took"])
    assert figures["again"] == 0


async def test_our_sql_returns_when_each_timer_was_due_and_claimed(dsn: str) -> None:
    contender = SmallSqlAlone()
    async with opened(contender, dsn):
        batch = Batch.overdue(500)
        await contender.put(batch)
        await contender.start()
        await completed(contender, 500, within_s=BOUND_S)
        calls = sorted(await contender.firings())

    assert [it.due_s for it in calls] == pytest.approx(
        [batch.begin_s + n * batch.every_s for n in range(500)], abs=1e-5
    )
    assert all(it.fired_s > batch.end_s for it in calls)
