"""Find the records of timers' ends in the log, without payloads; read whole records for clients that wait for a timer's
end.

A payload may have 64 KiB. A client that waits for one timer must not wait while the payloads of thousands of timers are
read.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from shardclock.log.record import UNDELIVERED, LogRecord
from shardclock_server.sql.log.records import record_of
from shardclock_server.sql.session import Record, Session

# A record with one of these intents is a timer's last record. TRIGGERED is the last record only if the timer has no
# delivery.
ENDS = ("CANCELED", "SKIPPED", "DELIVERED", "DISCARDED", "DEAD")


class End(NamedTuple):
    """The position of the record of a timer's end."""

    timer_key: int
    position: int
    recorded_at: datetime


class Skimmed(NamedTuple):
    """One page of the log: the records that end timers, the number of all records, and the last position."""

    ends: list[End]
    records: int
    next: int


async def find_ends(session: Session, timer_keys: Collection[int]) -> list[End]:
    """Find the record that ended each timer; a timer that has not ended has no entry in the result.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/log/find_ends.sql
    """
    rows = await session.rows("find_ends", timer_keys=list(timer_keys), ends=ENDS, undelivered=UNDELIVERED)
    return [_end_of(row) for row in rows]


async def skim_ends(session: Session, after: int, *, limit: int) -> Skimmed:
    """Search the log after a position for records that end timers; the caller stores the position between its calls.

    units:   `limit` counts the records that are searched
    errors:  StoreUnavailable  no answer before the timeout: call again
    source:  sql/log/skim_ends.sql
    """
    rows = await session.rows("skim_ends", after=after, page_size=limit, ends=ENDS, undelivered=UNDELIVERED)
    ends = [_end_of(row) for row in rows if row["is_end"]]
    return Skimmed(ends, len(rows), rows[-1]["position"] if rows else after)


async def records_at(session: Session, ends: Collection[End]) -> list[LogRecord]:
    """Read whole records; a record of a dropped partition is left out.

    shape:   in any order
    errors:  StoreUnavailable  no answer before the timeout
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
