"""The records that ended timers: found without their payloads, and read whole only for whom they are told.

A payload may have 64 KiB, and who waits for one timer is not to wait until those of thousands of others are read.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from shardclock.log.record import UNDELIVERED, LogRecord
from shardclock_server.sql.log.records import record_of
from shardclock_server.sql.session import Record, Session

# Whatever a timer's target is; it has ended when it fires only if no delivery follows.
ENDS = ("CANCELED", "SKIPPED", "DELIVERED", "DISCARDED", "DEAD")


class End(NamedTuple):
    """Where the record stands that ended a timer."""

    timer_key: int
    position: int
    recorded_at: datetime


class Skimmed(NamedTuple):
    """What a page of the log has: its ends, the number of all its records, and the position that it reaches."""

    ends: list[End]
    records: int
    next: int


async def find_ends(session: Session, timer_keys: Collection[int]) -> list[End]:
    """Find the end of each of some timers; those that have not ended are left out.

    errors:  StoreUnavailable  no answer in time
    source:  sql/log/find_ends.sql
    """
    rows = await session.rows("find_ends", timer_keys=list(timer_keys), ends=ENDS, undelivered=UNDELIVERED)
    return [_end_of(row) for row in rows]


async def skim_ends(session: Session, after: int, *, limit: int) -> Skimmed:
    """Look for ends in the log after a position that the reader keeps itself.

    units:   `limit` is of records that are looked at
    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/log/skim_ends.sql
    """
    rows = await session.rows("skim_ends", after=after, page_size=limit, ends=ENDS, undelivered=UNDELIVERED)
    ends = [_end_of(row) for row in rows if row["is_end"]]
    return Skimmed(ends, len(rows), rows[-1]["position"] if rows else after)


async def records_at(session: Session, ends: Collection[End]) -> list[LogRecord]:
    """Read whole records; one whose day was dropped meanwhile is left out.

    shape:   in any order
    errors:  StoreUnavailable  no answer in time
    source:  sql/log/records_at.sql
    """
    rows = await session.rows(
        "records_at",
        timer_keys=[end.timer_key for end in ends],
        positions=[end.position for end in ends],
        recorded_at=[end.recorded_at for end in ends],
    )
    return [record_of(row) for row in rows]


def _end_of(row: Record) -> End:
    return End(row["timer_key"], row["position"], row["recorded_at"])
