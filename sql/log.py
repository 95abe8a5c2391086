"""The command log, read in order, each record once.

Positions are drawn before their transaction commits, so a reader that goes by position alone passes over rows that
commit late. Ours orders by `(xid, position)` and reads only below the snapshot's xmin: every transaction down there has
ended, so nothing can appear behind the cursor. The price: a write transaction that stays open, anywhere in the
instance, holds all readers back until it ends.

    async def bill(connection, records):
        for record in records:
            await connection.execute("insert into invoices ...", record.timer_key)

    await consume(dsn, "billing", bill)

The group's cursor moves in the transaction that `bill` works in: whatever it writes to this Postgres is done exactly
once for each record. What it does elsewhere is done at least once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sql.session import Connection, Record, Session, StoreUnavailable
from sql.statements import statement

Work: TypeAlias = Callable[[Connection, "Sequence[LogRecord]"], Awaitable[None]]

POLL_S = 0.1
WORK_S = 60.0  # a consumer's transaction ends by then: while it is open, every reader of the log waits for it
READ_MAX = 500


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One thing that happened: `intent` is TRIGGERED, CANCELED, RESCHEDULED, SKIPPED, PAUSED or RESUMED."""

    xid: int
    position: int
    recorded_at: datetime
    intent: str
    timer_key: int
    tenant_id: str
    name: str | None
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    due_date: datetime
    created_at: datetime
    schedule: str | None
    occurrence: int
    target: str
    payload: str | None
    holder: int | None
    detail: str | None

    @property
    def count(self) -> int:
        """Say how many occurrences the record stands for: more than one only where some were skipped."""
        return int(json.loads(self.detail)["count"]) if self.intent == "SKIPPED" and self.detail else 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the log: behind this record."""

    xid: int = 0
    position: int = 0


class _WorkFailed(Exception):
    """Carries what a consumer's work raised out of the transaction, which it must roll back, unchanged."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def consume(dsn: str, group: str, work: Work, *, limit: int = READ_MAX) -> None:
    """Do a group's work for every record, in order, until cancelled; an outage is waited for.

    Members of one group take turns; each record is worked on by one of them.

    errors:  whatever `work` raises, and with it the batch is undone
    """
    async with Session(dsn, application=f"shardclock consumer {group}"[:63], timeout_s=WORK_S) as session:
        while True:
            try:
                busy = await consume_once(session, group, work, limit=limit)
            except StoreUnavailable:
                busy = 0
            if not busy:
                await asyncio.sleep(POLL_S)


async def consume_once(session: Session, group: str, work: Work, *, limit: int = READ_MAX) -> int:
    """Do a group's work for the next records, in one transaction with its cursor.

    shape:   how many records; 0 when there is none, or another member of the group is at work
    errors:  StoreUnavailable  whether it was done is unknown: call again, the cursor knows
             whatever `work` raises, and with it the batch is undone
    source:  sql/queries/open_group.sql, lock_cursor.sql, read_log.sql, advance_cursor.sql
    """
    # Not within the work's transaction: a group's second member would wait there until the first has done its first.
    await session.rows("open_group", group)
    try:
        async with session.transaction(timeout_s=WORK_S) as connection:
            cursor = await connection.fetchrow(statement("lock_cursor"), group)
            if cursor is None:
                return 0
            rows = await connection.fetch(statement("read_log"), cursor["xid"], cursor["position"], limit)
            if rows:
                await _do(work, connection, [record_of(row) for row in rows])
                last = rows[-1]
                await connection.execute(statement("advance_cursor"), group, last["xid"], last["position"])
            return len(rows)
    except _WorkFailed as failure:
        error = failure.error
    raise error


async def read_log(session: Session, cursor: Cursor, *, limit: int = READ_MAX) -> list[LogRecord]:
    """Read the records behind a cursor that the reader keeps itself.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/queries/read_log.sql
    """
    return [record_of(row) for row in await session.rows("read_log", str(cursor.xid), cursor.position, limit)]


async def log_end(session: Session) -> Cursor:
    """Find the cursor behind everything that is readable now.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/queries/log_end.sql
    """
    row = await session.row("log_end")
    assert row is not None
    return Cursor(xid=int(row["xid"]))


async def follow(session: Session, cursor: Cursor) -> AsyncIterator[list[LogRecord]]:
    """Give the records behind a cursor as they come, a batch at a time, empty ones too while nothing happens.

    errors:  StoreUnavailable  no answer in time: follow again from the last record
    """
    while True:
        records = await read_log(session, cursor)
        yield records
        if records:
            cursor = Cursor(records[-1].xid, records[-1].position)
        else:
            await asyncio.sleep(POLL_S)


async def _do(work: Work, connection: Connection, records: Sequence[LogRecord]) -> None:
    try:
        await work(connection, records)
    except Exception as error:
        if connection.is_closed():
            raise StoreUnavailable(f"lost while {len(records)} records were worked on: {error}") from error
        raise _WorkFailed(error) from None


def record_of(row: Record) -> LogRecord:
    """Make a record of a row of `read_log`."""
    values = dict(row)
    return LogRecord(xid=int(values.pop("xid")), **values)
