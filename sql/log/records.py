"""Read the command log: a page of the records of given tenants, or all new records, continuously."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from shardclock.jsonb import stored_json
from shardclock.log.async_member import POLL_S
from shardclock.log.async_reading import PAGE_BYTES, READ_MAX, read_log, read_page
from shardclock.log.record import LogRecord
from shardclock_server.sql.session import Record, Session

INTENTS = (
    "TRIGGERED", "CANCELED", "RESCHEDULED", "SKIPPED", "PAUSED", "RESUMED", "DELIVERED", "DISCARDED", "DEAD",
    "REDRIVEN", "SCHEDULED", "STARTING", "RUNNING", "TERMINATING", "DISABLED", "STALE",
)  # fmt: skip


class OwnRecords(NamedTuple):
    """The records of given tenants in a page of the log, and the last searched position."""

    records: list[LogRecord]
    next: int


async def read_own(session: Session, after: int, *, limit: int = READ_MAX, bytes_max: int = PAGE_BYTES) -> OwnRecords:
    """Search the records after a position, and read the records of the session's tenants.

    units:   `limit` counts the searched records of all tenants; the page ends once its records have `bytes_max` as
             JSON
    errors:  StoreUnavailable  no answer before the timeout: call again
    source:  sql/functions/log/end_of_page.sql, client/shardclock/sql/statements/read_log.sql
    """
    end = await session.call_one("end_of_page", after=after, page_size=limit)
    if end is None:
        return OwnRecords([], after)
    page = await read_page(session, after, limit=limit, horizon=end, bytes_max=bytes_max)
    # Records that were committed between the two statements may fill the page before it reaches `end`.
    return OwnRecords(page.records, page.records[-1].position if page.is_full else end)


async def follow(session: Session, after: int) -> AsyncIterator[list[LogRecord]]:
    """Yield batches of the records after a position, forever; yield an empty batch if there are no new records.

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
    """Count the bytes of payloads in the same way as the statements that limit a page."""
    return sum(len(payload.encode()) for payload in payloads if payload is not None)


def record_of(row: Record) -> LogRecord:
    """Convert a row to a LogRecord; the columns have the same order as the fields."""
    *columns, detail = row
    return LogRecord(*[*columns, None if detail is None else stored_json(detail)])
