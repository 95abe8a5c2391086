"""Read one timer, pending or ended, and its log records."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

from shardclock.log import LogRecord
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.log.records import record_of
from shardclock_server.sql.session import Session

AROUND_MAX = 100  # the limit of records before a moment, and also of records after the moment


@dataclass(frozen=True, slots=True)
class TimerState:
    """One timer, pending or ended. `holder` is the holder that leases the timer or that has fired it.

    shape:   changed_at  the last time at which a client changed the due date or paused the timer; None: no change, or
                         the timer has ended
             resume_at   the end of the pause; None: the pause has no end, or the timer is not paused
             missed      the schedule's policy for missed occurrences; None: a plain timer, or the timer has ended
    """

    timer_key: int
    state: str
    tenant_id: str
    name: str | None
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    due_date: datetime
    created_at: datetime
    changed_at: datetime | None
    resume_at: datetime | None
    schedule: str | None
    zone: str | None
    missed: str | None
    occurrence: int
    target: str
    payload: str | None
    ended_at: datetime | None
    holder: int | None
    detail: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Convert a row; without a schedule the policy for missed occurrences becomes None."""
        return cls(**{**row, "missed": row["missed"] if row["schedule"] is not None else None})


@dataclass(frozen=True, slots=True)
class UpcomingTimer:
    """The next occurrence of a pending or paused timer. A firing after `late_since` counts as late.

    If a client resumed the timer and chose `missed` for the occurrences of the pause, `missed_before` is the moment of
    the resume; otherwise it is None.
    """

    due_date: datetime
    schedule: str | None
    zone: str
    kept_due_date: datetime | None
    anchor: datetime | None
    anchor_occurrence: int | None
    occurrence: int
    repetitions: int
    missed: str
    late_since: datetime
    missed_before: datetime | None = None

    @property
    def is_unplanned(self) -> bool:
        """Return whether the due date is a placeholder: no shard has computed the schedule's first due date yet."""
        return self.schedule is not None and self.anchor_occurrence is None


async def find_timer(session: Session, which: TimerRef) -> TimerState | None:
    """Find a timer; if several timers had the name, find the pending timer, or else the timer that ended last.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/find_timer.sql
    """
    row = await session.row("find_timer", **asdict(which))
    return TimerState.of(dict(row)) if row else None


async def lock_timer(session: Session, timer_key: int) -> bool:
    """Lock a pending timer until the caller's transaction ends; return False if the timer is not pending.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/lock_timer.sql
    """
    return await session.row("lock_timer", timer_key=timer_key) is not None


async def read_upcoming(session: Session, which: TimerRef) -> UpcomingTimer | None:
    """Read the next occurrence of a pending or paused timer; None if the timer does not exist or has ended.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/read_upcoming.sql
    """
    row = await session.row("read_upcoming", **asdict(which))
    return UpcomingTimer(*row) if row else None


async def read_overdue_pauses(session: Session, timer_keys: Sequence[int]) -> list[UpcomingTimer]:
    """Read the given timers that are overdue, paused schedules of clients.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/read_overdue_pauses.sql
    """
    return [UpcomingTimer(*row) for row in await session.rows("read_overdue_pauses", timer_keys=timer_keys)]


async def records_of(session: Session, which: TimerRef, *, limit: int = 20) -> list[LogRecord]:
    """Read the last records of a timer, or of all timers with one name, newest first.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/records_of.sql
    """
    rows = await session.rows("records_of", **asdict(which), limit=limit)
    return [record_of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Witness:
    """A holder, and whether the holder was alive at the given moment."""

    holder: int
    actor_name: str
    host: str
    pid: int
    alive: bool


async def records_around(session: Session, which: TimerRef, moment: datetime) -> list[LogRecord]:
    """Read the records of a timer, or of all timers with one name, just before and just after a moment.

    shape:   at most AROUND_MAX before the moment and AROUND_MAX after it, oldest first
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/records_around.sql
    """
    rows = await session.rows("records_around", **asdict(which), moment=moment, limit=AROUND_MAX)
    return [record_of(row) for row in rows]


class PastHold(NamedTuple):
    """An operator's hold of the database: its reason, begin and end; `ended_at` is None while the hold lasts."""

    why: str
    began_at: datetime
    ended_at: datetime | None


async def read_past_hold(session: Session, *, since: datetime, until: datetime) -> PastHold | None:
    """Read the last hold of an operator that was in force between two moments.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/read_past_hold.sql
    """
    row = await session.row("read_past_hold", since=since, until=until)
    return PastHold._make(row) if row else None


async def witnesses(session: Session, holders: Collection[int], moment: datetime) -> list[Witness]:
    """Read the given holders, and all holders that were alive at a moment.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/witnesses.sql
    """
    return [Witness(*row) for row in await session.rows("witnesses", holders=list(holders), moment=moment)]
