"""Prove that a file's lines are each scheduled once, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from service import bulk_import
from service.bulk_import import ImportBroken, ImportReport, import_lines
from sql.backoff import Backoff
from sql.retry import Retry
from sql.session import Session
from tests.support.factories import BOUND_S, query, value

LINES = 20_000
NAME = "import under test"
DOWN = "postgresql://127.0.0.1:1/none"


def numbered(count: int) -> list[tuple[int, bytes]]:
    """Write lines, each with a name of its own."""
    return [(i, b'{"delay": "PT1H", "name": "line-%d"}' % i) for i in range(1, count + 1)]


@pytest.mark.exhaustive
async def test_a_connection_killed_again_and_again_neither_loses_nor_doubles_a_line(dsn: str) -> None:
    report, kills = ImportReport(), 0
    async with Session(dsn, application=NAME) as session, asyncio.timeout(2 * BOUND_S):
        work = asyncio.create_task(import_lines(session, numbered(LINES), report, keep=True))
        while not work.done():
            killed = await query(
                dsn, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", NAME
            )
            kills += len(killed)
            progress = report.scheduled
            while not work.done() and report.scheduled < progress + 1_000:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
        await work

    assert kills >= 5
    assert (report.scheduled, report.refused) == (LINES, [])
    assert await value(dsn, "select count(*) from shardclock.timers") == LINES
    assert await value(dsn, "select count(distinct name) from shardclock.timers") == LINES
    keys = {row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.timers")}
    assert {scheduled.timer_key for scheduled, _ in report.timers} == keys


@pytest.mark.exhaustive
async def test_an_outage_that_does_not_end_names_the_line_to_go_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_import, "BATCH_RETRY", Retry(attempts=3, backoff=Backoff(0.001, 0.001)))
    report = ImportReport()

    async with Session(DOWN, application=NAME) as session:
        with pytest.raises(ImportBroken, match=r"lines before 1 are done.*--start-line"):
            await import_lines(session, numbered(10), report)

    assert report.scheduled == 0
