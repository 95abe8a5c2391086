"""The command log, read in order, each record once.

A position is drawn before its transaction commits. A reader that simply goes on from the last position it saw would
skip records that commit late. So `shardclock.read_log` stops where an open transaction may still add a record. Only
transactions that have written to the log hold readers back: docs/decisions/0024-the-log-reads-by-position.md.

If several members must share the work, each record done once, use `sql.log.consuming` or `sql.log.leasing`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sql.session import Record, Session
from timers.payload import stored_json

POLL_S = 0.1
READ_MAX = 500
PAGE_BYTES = 4 * 2**20  # of payloads, in one answer, but for the last one of them
SIGNAL = "process:instance"  # the target of what an instance of a process waits for
UNDELIVERED = ("log", SIGNAL)  # the targets of which no record says that the delivery has ended


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One event of a timer or its delivery; `intent` says which, as the column's comment in Postgres lists them.

    shape:   `payload` is a JSON text as it was given, and `detail` an object, as in all clients
    """

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
    detail: dict[str, Any] | None

    @property
    def count(self) -> int:
        """Say how many occurrences the record is about: a SKIPPED record may be about several."""
        return int(self.detail["count"]) if self.intent == "SKIPPED" and self.detail else 1

    @property
    def has_target(self) -> bool:
        """Say whether the timer's firing calls something, so that a delivery follows it."""
        return self.target != "log"

    @property
    def is_delivered(self) -> bool:
        """Say whether a record of the delivery's end follows: an instance of a process takes a timer without one."""
        return self.target not in UNDELIVERED

    @property
    def late_since(self) -> datetime:
        """Say from when on a firing was late: its due date, or the moment a client asked for it if that was later.

        source:  shardclock.late_since
        """
        moments = [self.due_date]
        if self.occurrence == 1:
            moments.append(self.created_at)
        if self.intent == "TRIGGERED" and self.detail:
            moments.append(datetime.fromisoformat(self.detail["changed_at"]))
        return max(moments)


class OwnRecords(NamedTuple):
    """Some tenants' records out of a page of the log, and the position up to which it was looked through."""

    records: list[LogRecord]
    next: int


async def read_log(session: Session, after: int = 0, *, limit: int = READ_MAX) -> list[LogRecord]:
    """Read the records after a position that the reader keeps itself; 0 reads from the beginning.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/log/read_log.sql
    """
    rows = await session.rows(
        "read_log", after=after, page_size=limit, partition=0, partitions=1, horizon=None, bytes=None
    )
    return [record_of(row) for row in rows]


async def read_own(
    session: Session, after: int, *, limit: int = READ_MAX, payload_bytes: int = PAGE_BYTES
) -> OwnRecords:
    """Look through the records after a position, and read those of the tenants that the session serves.

    units:   `limit` is of records of any tenant that are looked at; no other follows once the payloads have
             `payload_bytes`
    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/log/end_of_page.sql, sql/log/read_log.sql
    """
    row = await session.row("end_of_page", after=after, page_size=limit)
    if row is None or row["position"] is None:
        return OwnRecords([], after)
    end = int(row["position"])
    values = {"after": after, "page_size": limit, "partition": 0, "partitions": 1, "horizon": end}
    records = [record_of(row) for row in await session.rows("read_log", **values, bytes=payload_bytes)]
    # Records that were committed between the two statements may have filled the page before its end.
    is_filled = len(records) == limit or bytes_of(record.payload for record in records) >= payload_bytes
    return OwnRecords(records, records[-1].position if is_filled else end)


async def log_end(session: Session) -> int:
    """Find the position up to which all records are readable now.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/log/log_end.sql
    """
    row = await session.row("log_end")
    assert row is not None
    return int(row["position"])


async def follow(session: Session, after: int) -> AsyncIterator[list[LogRecord]]:
    """Yield the records after a position as they come, in batches; while there are none, yield empty batches.

    errors:  StoreUnavailable  no answer in time: follow again from the last record
    """
    while True:
        records = await read_log(session, after)
        yield records
        if records:
            after = records[-1].position
        else:
            await asyncio.sleep(POLL_S)


def bytes_of(payloads: Iterable[str | None]) -> int:
    """Count the bytes of payloads as a statement counts them that bounds a page."""
    return sum(len(payload.encode()) for payload in payloads if payload is not None)


def record_of(row: Record) -> LogRecord:
    """Make a LogRecord from a row of `read_log`, whose columns have the order of its fields."""
    *columns, detail = row
    return LogRecord(*[*columns, None if detail is None else stored_json(detail)])
