"""Find timers, pending and ended, and read their records: for `list` and `show`."""

import math
import re
import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from shardclock.log import LogRecord
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.log.records import bytes_of, record_of
from shardclock_server.sql.session import NOT_ALLOWED, Record, Session, StatementRefused
from shardclock_server.timers.refusal import InvalidTimer

ENDED = ("TRIGGERED", "CANCELED", "SKIPPED", "ENDED")
POSITION = re.compile(r"[0-9]{1,18}")
STEP_S = 0.1  # that one statement may take, of a search for ended timers
STEP_LEAST, STEP_MOST = 10_000, 1_000_000  # positions of the log that it reads

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimerState:
    """One timer, past or present; `holder` is the one that leases it or has fired it."""

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
class UpcomingTimer:
    """How a pending or paused timer goes on; it is late from `late_since` on."""

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

    @property
    def is_unplanned(self) -> bool:
        """Say whether this is a schedule that no shard has planned yet: its due date is not real yet."""
        return self.schedule is not None and self.anchor_occurrence is None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which timers to find; a field that is None filters nothing. Due dates from `due_from` to before `due_before`."""

    tenant_id: str | None = None
    name_prefix: str | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None
    process_instance_key: int | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the timers found, and the next call's `page`; None: there are no more."""

    timers: list[TimerState]
    next: str | None


async def find_timers(
    session: Session,
    state: str,
    wanted: Filter,
    *,
    name: str | None = None,
    size: int = 1_000,
    page: str | None = None,
    within_s: float = math.inf,
    payload_bytes: int | None = None,
) -> Page:
    """Find timers: PENDING soonest first, PAUSED by key, or TRIGGERED, CANCELED, SKIPPED or ENDED, newest first.

    Ended ones are looked for in everybody's log, back from its end. If so few are found that this takes longer than
    `within_s`, a page ends where the search has come to: it is short, or empty, and yet not the last one.

    shape:   at most `size` timers; `size` is at most 10,000; no other follows once the payloads have `payload_bytes`
    errors:  StoreUnavailable  no answer in time
             InvalidTimer      no such state or page, or a name without its tenant
    source:  sql/clients/find_timers.sql, sql/clients/find_ended.sql
    """
    is_pending = state in ("PENDING", "PAUSED")
    if is_pending or name is not None or wanted.name_prefix is not None or not _is_ended(state, page):
        values = {"state": state, **asdict(wanted), "page": page, "page_size": size, "name": name}
        return _page_of(await _rows(session, "find_timers", values | {"bytes": payload_bytes}), size, payload_bytes)
    bounds = _Bounds(size, time.monotonic() + within_s, payload_bytes)
    return await _find_ended(session, state, wanted, bounds, page=page)


def _is_ended(state: str, page: str | None) -> bool:
    """Say whether this asks for ended timers; what it can't be, the database refuses in a sentence."""
    return state in ENDED and (page is None or POSITION.fullmatch(page) is not None)


class _Bounds(NamedTuple):
    """Bounds of one page of ended timers."""

    size: int
    until_s: float
    payload_bytes: int | None


async def _find_ended(session: Session, state: str, wanted: Filter, page_bounds: _Bounds, *, page: str | None) -> Page:
    """Look for ended timers in the log, back from a page or its end, a stretch with each statement."""
    ends = await session.row("read_log_ends")
    if ends is None or ends["last"] is None:
        return Page([], next=None)
    values = {"state": state, **asdict(wanted)}
    del values["name_prefix"]
    size, until_s, payload_bytes = page_bounds
    first, below, steps, timers = ends["first"], int(page or ends["last"] + 1), _Steps(), list[TimerState]()
    while below > first:
        above = max(first - 1, below - steps.length)
        bounds = {"above": above, "below": below, "page_size": size - len(timers), "bytes": payload_bytes}
        rows = await steps.timed(_rows(session, "find_ended", values | bounds))
        found = _page_of(rows, size - len(timers), payload_bytes)
        timers += found.timers
        if payload_bytes is not None:
            payload_bytes -= bytes_of(timer.payload for timer in found.timers)
        if found.next is not None:
            return Page(timers, next=found.next)
        below = above + 1
        if time.monotonic() >= until_s:
            break
    return Page(timers, next=str(below) if below > first else None)


class _Steps:
    """How much of the log one statement reads, by its positions: as much as takes about a tenth of a second."""

    def __init__(self) -> None:
        self.length = STEP_LEAST

    async def timed(self, look: Awaitable[T]) -> T:
        """Make one step, and choose the length of the next one."""
        began_s = time.monotonic()
        found = await look
        is_quick = time.monotonic() - began_s < STEP_S
        self.length = min(2 * self.length, STEP_MOST) if is_quick else max(self.length // 2, STEP_LEAST)
        return found


async def _rows(session: Session, statement_name: str, values: Mapping[str, object]) -> list[Record]:
    try:
        return await session.rows(statement_name, **values)
    except StatementRefused as error:
        if error.sqlstate == NOT_ALLOWED:
            raise
        raise InvalidTimer(str(error)) from error


def _page_of(rows: Sequence[Record], size: int, payload_bytes: int | None) -> Page:
    found = [dict(row) for row in rows]
    pages = [row.pop("page") for row in found]
    is_full = len(found) == size
    if payload_bytes is not None:
        is_full |= bytes_of(row["payload"] for row in found) >= payload_bytes
    return Page([TimerState(**row) for row in found], next=pages[-1] if is_full else None)


async def find_keys(session: Session, state: str, wanted: Filter, *, size: int, after_key: int = 0) -> list[int]:
    """Find the keys of timers that are PENDING or PAUSED, for a caller that changes them all.

    shape:   at most `size`, ascending; the last one is the next page's `after_key`
    errors:  StoreUnavailable  no answer in time
    source:  sql/functions/timers/find_keys.sql
    """
    rows = await session.call("find_keys", state=state, **asdict(wanted), after_key=after_key, page_size=size)
    return [row[0] for row in rows]


async def find_timers_of_system(session: Session, timer_keys: Sequence[int]) -> set[int]:
    """Find which of some timers are those of jobs and processes, which no client changes.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/find_timers_of_system.sql
    """
    rows = await session.rows("find_timers_of_system", timer_keys=timer_keys)
    return {row["timer_key"] for row in rows}


async def find_timer(session: Session, which: TimerRef) -> TimerState | None:
    """Find a timer; if several had the name, the pending one, or else the one that ended last.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/find_timer.sql
    """
    row = await session.row("find_timer", **asdict(which))
    return TimerState(**dict(row)) if row else None


async def lock_timer(session: Session, timer_key: int) -> bool:
    """Keep a pending timer as it is until the caller's transaction ends, and say whether it is pending.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/lock_timer.sql
    """
    return await session.row("lock_timer", timer_key=timer_key) is not None


async def read_upcoming(session: Session, which: TimerRef) -> UpcomingTimer | None:
    """Read how a pending or paused timer goes on; None if there is none.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/read_upcoming.sql
    """
    row = await session.row("read_upcoming", **asdict(which))
    return UpcomingTimer(*row) if row else None


async def records_of(session: Session, which: TimerRef, *, limit: int = 20) -> list[LogRecord]:
    """Read the last records of a timer, or of all timers that had a name, the newest first.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/records_of.sql
    """
    rows = await session.rows("records_of", **asdict(which), limit=limit)
    return [record_of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Witness:
    """A holder, and whether it was alive at the moment in question."""

    holder: int
    actor_name: str
    host: str
    pid: int
    alive: bool


async def records_around(session: Session, which: TimerRef, moment: datetime, *, limit: int = 100) -> list[LogRecord]:
    """Read the records of a timer, or of all timers that had a name, just before and just after a moment.

    shape:   at most `limit` before the moment and `limit` after it, the oldest first
    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/records_around.sql
    """
    rows = await session.rows("records_around", **asdict(which), moment=moment, limit=limit)
    return [record_of(row) for row in rows]


class PastHold(NamedTuple):
    """A hold of an operator, and when it was in force; `ended_at` is None while it goes on."""

    why: str
    began_at: datetime
    ended_at: datetime | None


async def read_past_hold(session: Session, *, since: datetime, until: datetime) -> PastHold | None:
    """Read the last hold of an operator that was in force between two moments.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/read_past_hold.sql
    """
    row = await session.row("read_past_hold", since=since, until=until)
    return PastHold._make(row) if row else None


async def witnesses(session: Session, holders: Collection[int], moment: datetime) -> list[Witness]:
    """Read what is known about these holders, and about all others that were alive at a moment.

    errors:  StoreUnavailable  no answer in time
    source:  sql/clients/witnesses.sql
    """
    return [Witness(*row) for row in await session.rows("witnesses", holders=list(holders), moment=moment)]
