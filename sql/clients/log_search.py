"""Find records of the log by a filter, newest first, page by page.

An index finds the records of a timer key or a name. Any other search reads the log section by section. The log has few
indexes, because each firing must write an entry to every index.
"""

import time
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import AwareDatetime

from shardclock.log.record import LogRecord
from shardclock_server.sql.clients.search import SectionSteps
from shardclock_server.sql.log.records import record_of
from shardclock_server.sql.page_cursors import Position, read_cursor, write_cursor
from shardclock_server.sql.session import Session

# Concurrent transactions may write records whose positions have another order than their times. The search assumes that
# two records in the wrong order are at most this many positions apart; a busy log writes this many within seconds.
DISORDER = 20_000


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter for the records of a tenant; a field that is None filters nothing.

    shape:   `since` is included, `before` is excluded
    """

    tenant_id: str
    name: str | None = None
    timer_key: int | None = None
    intent: str | None = None
    target: str | None = None
    process_instance_key: int | None = None
    since: datetime | None = None
    before: datetime | None = None


class LogCursor(NamedTuple):
    """The cursor of a page of records: the last record, or the position up to which the log was read."""

    recorded_at: AwareDatetime | None
    position: Position


class RecordPage(NamedTuple):
    """One page of records without payloads, and the `page` argument for the next call; None: this is the last page."""

    records: list[LogRecord]
    next: str | None


async def find_records(
    session: Session, wanted: RecordFilter, *, size: int, within_s: float, page: str | None = None
) -> RecordPage:
    """Find records, newest first.

    After `within_s` the search stops: the page may be short or empty, although more pages follow.

    errors:  StoreUnavailable  no answer before the timeout
             Refusal           `page` is not from a search of the log
    source:  sql/clients/find_records.sql, sql/clients/find_records_of.sql
    """
    after_at, after = read_cursor(LogCursor, page, "from a search of the log") or (None, None)
    if wanted.name is not None or wanted.timer_key is not None:
        rows = await session.rows("find_records_of", **asdict(wanted), after_at=after_at, after=after, page_size=size)
        records = [record_of(row) for row in rows]
        last = records[-1] if len(records) == size else None
        return RecordPage(records, None if last is None else write_cursor(LogCursor(last.recorded_at, last.position)))
    return await _find_in_sections(session, wanted, size=size, until_s=time.monotonic() + within_s, below=after)


async def _find_in_sections(
    session: Session, wanted: RecordFilter, *, size: int, until_s: float, below: int | None
) -> RecordPage:
    ends = await session.row("read_log_ends")
    if ends is None or ends["last"] is None:
        return RecordPage([], None)
    first = ends["first"]
    if wanted.since is not None:
        first = max(first, await _position_near(session, wanted.since, ends["first"], ends["last"]) - DISORDER)
    if below is None:
        below = ends["last"] + 1
        if wanted.before is not None:
            near = await _position_near(session, wanted.before, ends["first"], ends["last"])
            below = min(below, near + DISORDER)
    filters = {name: value for name, value in asdict(wanted).items() if name not in ("name", "timer_key")}
    steps, records = SectionSteps(), list[LogRecord]()
    while below > first:
        above = max(first - 1, below - steps.length)
        left = size - len(records)
        section = session.rows("find_records", **filters, above=above, below=below, page_size=left)
        rows = await steps.timed(section)
        records += [record_of(row) for row in rows]
        if len(rows) == left:
            return RecordPage(records, write_cursor(LogCursor(None, records[-1].position)))
        below = above + 1
        if time.monotonic() >= until_s:
            break
    return RecordPage(records, write_cursor(LogCursor(None, below)) if below > first else None)


async def _position_near(session: Session, moment: datetime, first: int, last: int) -> int:
    """Find a log position near the first record after a moment, by bisection."""
    while first < last:
        middle = (first + last) // 2
        row = await session.row("time_at_position", position=middle)
        if row is not None and row["recorded_at"] < moment:
            first = middle + 1
        else:
            last = middle
    return first
