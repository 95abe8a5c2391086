"""The command log as the server reads it: some tenants' records, and all as they come."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from shardclock.jsonb import stored_json
from shardclock.log.async_member import POLL_S
from shardclock.log.async_reading import PAGE_BYTES, READ_MAX, read_log, read_page
from shardclock.log.record import LogRecord
from shardclock_server.sql.session import Record, Session


class OwnRecords(NamedTuple):
    """Some tenants' records out of a page of the log, and the position up to which it was looked through."""

    records: list[LogRecord]
    next: int


async def read_own(session: Session, after: int, *, limit: int = READ_MAX, bytes_max: int = PAGE_BYTES) -> OwnRecords:
    """Look through the records after a position, and read those of the tenants that the session serves.

    units:   `limit` is of records of any tenant that are looked at; no other follows once the records have
             `bytes_max` as JSON
    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/functions/log/end_of_page.sql, client/shardclock/sql/statements/read_log.sql
    """
    end = await session.call_one("end_of_page", after=after, page_size=limit)
    if end is None:
        return OwnRecords([], after)
    page = await read_page(session, after, limit=limit, horizon=end, bytes_max=bytes_max)
    # Records that were committed between the two statements may have filled the page before its end.
    return OwnRecords(page.records, page.records[-1].position if page.is_full else end)


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
    """Count the bytes of timers' payloads as a statement counts them that bounds a page."""
    return sum(len(payload.encode()) for payload in payloads if payload is not None)


def record_of(row: Record) -> LogRecord:
    """Make a LogRecord from a row whose columns have the order of its fields."""
    *columns, detail = row
    return LogRecord(*[*columns, None if detail is None else stored_json(detail)])
