"""Each line of a file is scheduled once, even if connections break during the import."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from shardclock.backoff import Backoff
from shardclock_server.service import bulk_import
from shardclock_server.service.bulk_import import ImportReport, UnreadableLine, import_lines, numbered_lines
from shardclock_server.service.lines import ImportBroken
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query, value
from tests.support.waiting import eventually

LINES = 20_000
NAME = "import under test"
DOWN = "postgresql://127.0.0.1:1/none"
WAITING = "select count(*) from pg_locks where not granted"
NOTHING_MORE_S = 0.3  # in this time, an unwanted third part would start


@pytest.fixture(autouse=True)
def _parts_of_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_import, "PART_LINES", 1_000)


def numbered(count: int) -> list[tuple[int, bytes]]:
    """Write lines, each with its own name."""
    return [(i, b'{"delay": "PT1H", "name": "line-%d"}' % i) for i in range(1, count + 1)]


class _BrokenDisk(io.BytesIO):
    """A file with last bytes that the system can't read."""

    def readline(self, size: int | None = -1) -> bytes:
        if line := super().readline(size):
            return line
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("count", [0, 1, 1_000, 1_001])
async def test_all_lines_before_an_unreadable_one_are_scheduled_and_the_error_names_it(dsn: str, count: int) -> None:
    report, lines = ImportReport(), numbered_lines(_BrokenDisk(b'{"delay": "PT1H"}\n' * count))

    async with Session(dsn, application=NAME) as session:
        with pytest.raises(UnreadableLine, match=f"line {count + 1} can't be read: Input/output error; all lines bef"):
            await import_lines([session], lines, report)

    assert report.scheduled == count
    assert await value(dsn, "select count(*) from shardclock.timers") == count


@pytest.mark.exhaustive
async def test_repeated_kills_of_the_connection_neither_lose_nor_double_a_line(dsn: str) -> None:
    report, kills = ImportReport(), 0
    async with Session(dsn, application=NAME) as session, asyncio.timeout(2 * BOUND_S):
        work = asyncio.create_task(import_lines([session], numbered(LINES), report, keep=True))
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
async def test_a_permanent_outage_names_the_line_at_which_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_import, "BATCH_RETRY", StoreRetry(attempts=3, backoff=Backoff(0.001, 0.001)))
    report = ImportReport()

    async with Session(DOWN, application=NAME) as session:
        with pytest.raises(ImportBroken, match=r"lines 1 to 10 are done is unknown.*--start-line 11"):
            await import_lines([session], numbered(10), report)

    assert report.scheduled == 0


@pytest.mark.parametrize(
    ("line", "at_once"),
    [(b'{"delay": "PT1H"}', 2), (b'{"delay": "PT1H", "name": "a", "on_conflict": "ignore"}', 1)],
    ids=["without names", "with names"],
)
async def test_two_parts_are_written_at_the_same_time_unless_both_may_contain_the_same_name(
    dsn: str, line: bytes, at_once: int
) -> None:
    # Given a lock that blocks all writes to the table
    report, given = ImportReport(), 0

    def lines() -> Iterator[tuple[int, bytes]]:
        nonlocal given
        for given in range(1, 5_001):
            yield given, line

    async with two_sessions(dsn) as sessions, Session(dsn, application="in the way") as other:
        async with other.transaction() as connection:
            await connection.execute("lock table shardclock.timers in share row exclusive mode")

            # When five parts are waiting to be written, and the next one has been read
            work = asyncio.create_task(import_lines(sessions, lines(), report))
            await eventually(lambda: _waiting(dsn, at_once))
            await eventually(lambda: given == 1_000 * (at_once + 1))
            await asyncio.sleep(NOTHING_MORE_S)
            waiting = await value(dsn, WAITING)
        async with asyncio.timeout(BOUND_S):
            await work

    # Then the import had started exactly as many parts as it may write at once
    assert waiting == at_once
    assert (report.scheduled, report.refused, report.next_line) == (5_000, [], 5_001)


async def _waiting(dsn: str, count: int) -> bool:
    return bool(await value(dsn, WAITING) >= count)


@asynccontextmanager
async def two_sessions(first: str, second: str = "") -> AsyncIterator[list[Session]]:
    async with Session(first, application=NAME) as one, Session(second or first, application=NAME) as other:
        yield [one, other]


async def test_lines_with_one_name_are_written_in_order_on_two_connections(dsn: str) -> None:
    line = '{"delay": "PT1H", "name": "a", "on_conflict": "replace", "payload": %d}'
    report = ImportReport()

    async with two_sessions(dsn) as sessions:
        await import_lines(sessions, [(n, (line % n).encode()) for n in range(1, 1_501)], report)

    assert (report.scheduled, report.replaced, report.refused) == (1_500, 1_499, [])
    assert await value(dsn, "select payload::integer from shardclock.timers") == 1_500


async def test_a_part_of_long_lines_has_fewer_lines_to_bound_its_memory(dsn: str) -> None:
    # Given lines of 64 KiB, so that 64 lines are 4 MiB
    head, tail = b'{"delay": "PT1H", "payload": "', b'"}\n'
    line = head + b"x" * (65_536 - len(head) - len(tail)) + tail
    report, done = ImportReport(), list[int]()

    # When 150 lines are imported
    async with two_sessions(dsn) as sessions:
        lines = [(n, line) for n in range(1, 151)]
        await import_lines(sessions, lines, report, progress=lambda so_far: done.append(so_far.scheduled))

    # Then no part had more than 64 lines
    assert done == [64, 128, 150]


async def test_concurrent_parts_of_a_broken_part_are_reported_and_no_later_part_begins(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_import, "BATCH_RETRY", StoreRetry(attempts=3, backoff=Backoff(1.0, 1.0)))
    report, lines = ImportReport(), [(n, b'{"delay": "PT1H"}') for n in range(1, 5_001)]

    async with two_sessions(dsn, DOWN) as sessions:
        with pytest.raises(ImportBroken, match=r"1001 to 2000.*before line 3001.*--start-line 3001") as broken:
            await import_lines(sessions, lines, report)

    assert (broken.value.first_line, broken.value.last_line) == (1_001, 2_000)
    assert report.scheduled == await value(dsn, "select count(*) from shardclock.timers") == 2_000


async def test_several_broken_parts_are_reported_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_import, "BATCH_RETRY", StoreRetry(attempts=2, backoff=Backoff(0.01, 0.01)))
    report, faults = ImportReport(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))

    async with two_sessions(DOWN) as sessions:
        with pytest.raises(ImportBroken, match=r"1 to 2000.*--start-line 2001"):
            await import_lines(sessions, [(n, b'{"delay": "PT1H"}') for n in range(1, 5_001)], report)

    gc.collect()
    await asyncio.sleep(0)
    assert (report.scheduled, faults) == (0, [])


async def test_a_cancelled_import_leaves_no_write_in_progress(dsn: str) -> None:
    async with two_sessions(dsn) as sessions, Session(dsn, application="in the way") as other:
        async with other.transaction() as connection:
            await connection.execute("lock table shardclock.timers in share row exclusive mode")
            lines = [(n, b'{"delay": "PT1H"}') for n in range(1, 5_001)]
            before = asyncio.all_tasks()
            work = asyncio.create_task(import_lines(sessions, lines, ImportReport()))
            await eventually(lambda: _waiting(dsn, 2))

            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert asyncio.all_tasks() == before

        await eventually(lambda: _is_empty(dsn))


async def _is_empty(dsn: str) -> bool:
    """Return whether the cancelled statements have ended and have written no row."""
    ended = "select not exists (select from pg_stat_activity where application_name = $1 and state = 'active')"
    return bool(await value(dsn, ended, NAME)) and await value(dsn, "select count(*) from shardclock.timers") == 0
