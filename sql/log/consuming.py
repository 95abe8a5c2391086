"""Do work for each record of the log in the transaction that moves the group's place: exactly once, in Postgres.

    async def bill(connection, records):
        for record in records:
            await connection.execute("insert into invoices ...", record.timer_key)

    await consume(dsn, "billing", bill)

Whatever `bill` writes to this Postgres is done exactly once for each record. For other work there is `sql.log.leasing`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeAlias

import asyncpg

from sql.dsn import Dsn
from sql.log.groups import Place, open_group
from sql.log.member import ANSWER_S, WORK_S, Member, WorkCancelled, WorkFailed, WorkTooSlow, check_work, told
from sql.log.records import READ_MAX, LogRecord, record_of
from sql.session import Connection, Record, Session, StatementRefused, StoreUnavailable
from sql.statements import statement

Work: TypeAlias = Callable[[Connection, Sequence[LogRecord]], Awaitable[None]]

# What a statement raises when its connection is lost.
LOST = (
    ConnectionError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)


class WorkLost(Exception):
    """The connection was lost during the work, although Postgres itself kept running."""


class TransactionEnded(Exception):
    """The work committed or rolled back the transaction that it was given, which only we may end."""


async def consume(
    dsn: Dsn | str, group: str, work: Work, *, partitions: int | None = None, attempts: int | None = None
) -> None:
    """Do a group's work for every record, in order, until cancelled.

    A batch has as many records as the work does in about a second. If `work` raises, the error is logged and counted,
    the batch is rolled back and tried again, after longer and longer waits; after `attempts` on one record, that record
    is set aside. As many members can work at once as the group has `partitions`; all records of a timer are in one
    partition.

    errors:  GroupDiffers      the group has another number of partitions
             GroupDropped      it was dropped meanwhile
             StatementRefused  the DSN is wrong, or the role lacks a right
             TypeError         `work` is a plain function
    """
    check_work(work)
    member = Member(dsn, group, partitions=partitions, attempts=attempts)

    async def turn() -> bool:
        began_s = time.monotonic()
        limit = member.pace.records
        try:
            records = await _work_once(member.session, group, work, limit=limit)
        except WorkFailed as failure:
            await member.fail(failure)
            return True
        if records:
            member.pace.done(records, time.monotonic() - began_s)
        return records is not None

    await member.run(turn)


async def consume_once(session: Session, group: str, work: Work, *, limit: int = READ_MAX) -> int:
    """Do a group's work for the next records, in the transaction that moves the group's place.

    shape:   how many records; 0 if there are none, or if other members have them
    errors:  StoreUnavailable  it is unknown whether the work was done: call again, it continues at the group's place
             whatever `work` raises; then the batch is rolled back
    """
    # Not in the work's transaction: a new group's second member would wait until the first has done its first batch.
    await open_group(session, group)
    try:
        return await _work_once(session, group, work, limit=limit) or 0
    except WorkFailed as failure:
        error = failure.error
    raise error


async def _work_once(session: Session, group: str, work: Work, *, limit: int) -> int | None:
    """Work on the free partition that is furthest behind; None if there is none to work on.

    source:  sql/log/take_partition.sql, read_log.sql, advance_place.sql
    """
    batch = _Batch(group, work, limit)
    try:
        async with session.transaction() as connection:
            return await batch.do(connection)
    except (StatementRefused, StoreUnavailable) as error:
        raise await batch.verdict(session, error) from error


async def _read(connection: Connection, place: Place, size: int) -> list[Record]:
    """Read the log in a savepoint that is rolled back.

    Reading the log locks all its days until the transaction ends: while members work, no day could be made or dropped.
    A rollback to a savepoint releases the locks taken since; the group's partition was locked before, and stays locked.
    """
    savepoint = connection.transaction()
    await savepoint.start()
    values = {
        "after": place.position,
        "page_size": size,
        "partition": place.partition,
        "partitions": place.partitions,
        "horizon": place.horizon,
        "bytes": None,
    }
    rows: list[Record] = await connection.fetch(*statement("read_log").with_values(values))
    await savepoint.rollback()
    return rows


class _Batch:
    """Do the work on a batch in the transaction that moves the place, and decide whether an error is the work's."""

    def __init__(self, group: str, work: Work, limit: int) -> None:
        self._group, self._work, self._limit = group, work, limit
        self._place: Place | None = None
        self._records: Sequence[LogRecord] = ()
        self._began_on: datetime | None = None  # the start time of the server on which the work began
        self._error: Exception | None = None
        self._moved = False

    async def do(self, connection: Connection) -> int | None:
        """Lock a partition, read, do the work and move its place; return how many records there were."""
        row = await connection.fetchrow(*statement("take_partition").with_values({"group_name": self._group}))
        if row is None:
            return None
        found = dict(row)
        transaction, started_at = found.pop("transaction"), found.pop("started_at")
        self._place = place = Place(group=self._group, **found)
        # A record that has failed is tried alone, so that it does not undo the work on others.
        size = 1 if place.attempts else self._limit
        rows = await _read(connection, place, size)
        self._records = [record_of(row) for row in rows]
        end = place.end_of([row["position"] for row in rows], full=len(rows) == size)
        if self._records:
            self._began_on = started_at
            await self._try(connection)
        values = {
            "group_name": place.group,
            "partition": place.partition,
            "position": end,
            "worked": bool(self._records),
            "transaction": transaction,
        }
        self._moved = await connection.fetchval(*statement("advance_place").with_values(values)) is not None
        if not self._moved:
            self._error = TransactionEnded(
                "the work ended the transaction that it was given, and what it wrote is not undone: leave commit and"
                " rollback to us; for a part that may fail there is `async with connection.transaction()`"
            )
            raise self._failed(self._error)
        return len(self._records)

    async def verdict(self, session: Session, error: StatementRefused | StoreUnavailable) -> Exception:
        """Say which error to raise: the work's failure, or the failure of Postgres itself."""
        if self._began_on is None or isinstance(self._error, WorkTooSlow | TransactionEnded):
            return self._failed(self._error) if self._error else error
        if isinstance(error, StatementRefused):  # the work has left a transaction that can't be committed
            return self._failed(self._error or error)
        if self._moved or not isinstance(error.__cause__, LOST):
            return self._failed(self._error) if self._error else error
        if not await _runs_since(session, self._began_on):
            return error
        return self._failed(WorkLost(f"the work lost its connection, and Postgres is there: {told(error)}"))

    async def _try(self, connection: Connection) -> None:
        task, began_s, limit = asyncio.current_task(), time.monotonic(), asyncio.timeout(WORK_S)
        assert task is not None
        asked = task.cancelling()
        try:
            async with limit:
                await self._work(connection, self._records)
        except asyncio.CancelledError:
            if task.cancelling() > asked:
                raise
            self._error = WorkCancelled()
        except Exception as error:  # noqa: BLE001 - whatever the work raises is said and counted
            self._error = error
        finally:
            # Measured here too: work that blocks the event loop is not interrupted, and its connection may be gone.
            if limit.expired() or time.monotonic() - began_s >= WORK_S:
                self._error = WorkTooSlow(
                    f"work on {len(self._records)} record(s) took longer than a transaction may, {WORK_S:g} s: do such"
                    " work under a lease (sql.log.leasing), and what blocks the event loop in asyncio.to_thread"
                )
        if self._error:
            raise self._failed(self._error)

    def _failed(self, error: Exception) -> WorkFailed:
        assert self._place is not None
        return WorkFailed(self._place, self._records, error)


async def _runs_since(session: Session, started_at: datetime) -> bool:
    """Say whether the same server still answers: one that started at this time, so it was not restarted or replaced."""
    try:
        async with asyncio.timeout(ANSWER_S):
            row = await session.row("read_start")
    except (StoreUnavailable, TimeoutError):
        return False
    return row is not None and row["started_at"] == started_at
