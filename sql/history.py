"""Looking at timers, pending and ended: what `list` and `show` tell."""

from collections.abc import Collection
from dataclasses import astuple, dataclass
from datetime import datetime

from sql.log import LogRecord, record_of
from sql.session import Session, StatementRefused
from sql.verbs import Which
from timers.refusal import InvalidTimer


@dataclass(frozen=True, slots=True)
class TimerState:
    """One timer, past or present; `holder` has claimed it, or fired it."""

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
    schedule: str | None
    zone: str | None
    missed: str | None
    occurrence: int
    target: str
    payload: str | None
    ended_at: datetime | None
    holder: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which timers to find; what is None doesn't narrow. Due dates from `due_from` to before `due_before`."""

    tenant_id: str | None = None
    name_prefix: str | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None
    process_instance_key: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the timers found, and what to ask with for more: None is the end."""

    timers: list[TimerState]
    next: str | None


async def find_timers(
    session: Session, state: str, wanted: Filter, *, size: int = 1_000, page: str | None = None
) -> Page:
    """Find timers: PENDING soonest first, PAUSED by key, or TRIGGERED, CANCELED, SKIPPED or ENDED, newest first.

    shape:   at most `size` of them, which is at most 10,000
    errors:  StoreUnavailable  no answer in time
             InvalidTimer      no such state or page, or a name without its tenant
    source:  sql/queries/find_timers.sql
    """
    try:
        rows = await session.rows("find_timers", state, *astuple(wanted), page, size)
    except StatementRefused as error:
        raise InvalidTimer(str(error)) from error
    found = [dict(row) for row in rows]
    pages = [row.pop("page") for row in found]
    return Page([TimerState(**row) for row in found], next=pages[-1] if len(found) == size else None)


async def find_keys(session: Session, state: str, wanted: Filter, *, size: int, after_key: int = 0) -> list[int]:
    """Find the keys of timers that are PENDING or PAUSED, for whoever wants to change them all.

    shape:   at most `size`, ascending; the last one is the next page's `after_key`
    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/find_keys.sql
    """
    rows = await session.rows("find_keys", state, *astuple(wanted), after_key, size)
    return [row["timer_key"] for row in rows]


async def find_timer(session: Session, which: Which) -> TimerState | None:
    """Find a timer; of a name that was used often, the pending one or else the latest.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/find_timer.sql
    """
    row = await session.row("find_timer", which.timer_key, which.name, which.tenant_id)
    return TimerState(**dict(row)) if row else None


async def records_of(session: Session, which: Which, *, limit: int = 20) -> list[LogRecord]:
    """Read the last records of a timer, or of all that bore its name, the newest first.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/records_of.sql
    """
    rows = await session.rows("records_of", which.timer_key, which.name, which.tenant_id, limit)
    return [record_of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Witness:
    """A holder, and whether it gave a sign of life at the moment in question."""

    holder: int
    actor_name: str
    host: str
    pid: int
    alive: bool


async def records_around(session: Session, which: Which, moment: datetime, *, limit: int = 100) -> list[LogRecord]:
    """Read what was recorded of a timer, or of all that bore its name, before and after a moment.

    shape:   at most `limit` on either side, the oldest first
    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/records_around.sql
    """
    rows = await session.rows("records_around", which.timer_key, which.name, which.tenant_id, moment, limit)
    return [record_of(row) for row in rows]


async def witnesses(session: Session, holders: Collection[int], moment: datetime) -> list[Witness]:
    """Read who these holders are, and who else was there at a moment.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/witnesses.sql
    """
    return [Witness(*row) for row in await session.rows("witnesses", list(holders), moment)]
