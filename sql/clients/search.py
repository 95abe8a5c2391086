"""Find timers by a filter, page by page.

Most searches take one statement for each page. Two searches read their rows section by section, because no index finds
the few matches: the search for ended timers in the log, and the search for a text within names.
"""

import math
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from shardclock.api.codes import REFUSED, invalid
from shardclock.api.refusals.timers import NEEDS_ONE_NAME
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.log.records import bytes_of
from shardclock_server.sql.session import NOT_ALLOWED, Record, Session, StatementRefused
from shardclock_server.timers.refusal import InvalidTimer, shortened

ENDED = ("TRIGGERED", "CANCELED", "SKIPPED", "ENDED")
OPEN_STATES = ("pending", "paused")  # as clients write them
TIMER_STATES = (*OPEN_STATES, *(state.lower() for state in ENDED))
POSITION = re.compile(r"[0-9]{1,18}")
STEP_S = 0.1  # The target duration of one statement of a search in sections.
# The minimum and maximum number of log positions, or of names, that one statement reads.
STEP_LEAST, STEP_MOST = 10_000, 1_000_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimerFilter:
    """Filters for timers; a field that is None filters nothing.

    shape:   `due_from` and `changed_from` are included, `due_before` and `changed_before` excluded; `name_contains`
             ignores upper and lower case
    """

    tenant_id: str | None = None
    name_prefix: str | None = None
    name_contains: str | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None
    changed_from: datetime | None = None
    changed_before: datetime | None = None
    process_instance_key: int | None = None
    target: str | None = None
    only_schedules: bool = False


@dataclass(frozen=True, slots=True)
class SelectionFilter(TimerFilter):
    """A filter for `find_keys` and `count_timers`; it can also select timers by their keys."""

    timer_keys: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of timers, and the `page` argument for the next call; None: this is the last page."""

    timers: list[TimerState]
    next: str | None


class PageLimits(NamedTuple):
    """Limits of one page: the duration of a search in sections, and the total bytes of the payloads. The last payload
    may exceed the limit."""

    within_s: float = math.inf
    payload_bytes: int | None = None


NO_LIMITS = PageLimits()


async def find_timers(
    session: Session,
    state: str,
    wanted: TimerFilter,
    *,
    name: str | None = None,
    order_by: str | None = None,
    size: int = 1_000,
    page: str | None = None,
    limits: PageLimits = NO_LIMITS,
) -> Page:
    """Find timers: PENDING soonest first, PAUSED by key, or TRIGGERED, CANCELED, SKIPPED or ENDED, newest first.

    With `order_by` "change", PENDING and PAUSED timers are sorted by their last change, newest first. With
    `name_contains`, PENDING and PAUSED timers are sorted by their names; ended timers are sorted newest first. Two
    searches read their rows section by section: a search with `name_contains`, and a search for ended timers of all
    tenants. If one of these searches reaches its time limit, the page ends at the row that was read last. Such a page
    may be short or empty, although more pages follow.

    shape:   at most `size` timers; `size` is at most 10,000
    errors:  StoreUnavailable  no answer before the timeout
             InvalidTimer      an unknown state, order or page, a filter by name without a tenant, or two filters by
                               name
    source:  sql/clients/find_timers.sql, sql/clients/find_ended.sql, sql/clients/find_containing.sql
    """
    _check_names(wanted, name, order_by, of_ended=state in ENDED)
    within_s, payload_bytes = limits
    bounds = _Bounds(size, time.monotonic() + within_s, payload_bytes)
    values = {"state": state, **asdict(wanted)}
    if wanted.name_contains is not None and state in ("PENDING", "PAUSED"):
        del values["name_prefix"]
        return await _find_in_sections(_Names(session, values), bounds, place=page or "")
    if name is None and wanted.name_prefix is None and _is_of_log(state, order_by, page):
        del values["name_prefix"]
        ends = await session.row("read_log_ends")
        if ends is None or ends["last"] is None:
            return Page([], next=None)
        place = page or str(ends["last"] + 1)
        return await _find_in_sections(_Log(session, values, ends["first"]), bounds, place=place)
    del values["name_contains"]
    values |= {"page": page, "page_size": size, "name": name, "order_by": order_by, "bytes": payload_bytes}
    return _page_of(await _rows(session, "find_timers", values), size, payload_bytes)


def _check_names(wanted: TimerFilter, name: str | None, order_by: str | None, *, of_ended: bool) -> None:
    """Check that at most one filter for names is set, and that `name_contains` has a tenant and no `order_by`."""
    if sum(it is not None for it in (name, wanted.name_prefix, wanted.name_contains)) > 1:
        raise InvalidTimer.of(NEEDS_ONE_NAME)
    if wanted.name_contains is None:
        return
    if wanted.tenant_id is None:
        contained = shortened(wanted.name_contains)
        sentence = f"name_contains {contained} needs a tenant_id: each tenant has its own names"
        raise InvalidTimer(sentence, code=invalid("tenant_id"))
    if order_by is not None and not of_ended:
        why = f"{shortened(order_by)} can't be combined with name_contains: this search sorts timers by their names"
        raise InvalidTimer.of(invalid("order_by"), why=why)


def _is_of_log(state: str, order_by: str | None, page: str | None) -> bool:
    """Return whether the search is for ended timers."""
    is_page = page is None or POSITION.fullmatch(page) is not None
    return state in ENDED and order_by in (None, "change") and is_page


class _Bounds(NamedTuple):
    """The limits of one page of a search that reads section by section."""

    size: int
    until_s: float
    payload_bytes: int | None


class _Log(NamedTuple):
    """Reads ended timers from a position of the log backwards."""

    session: Session
    values: Mapping[str, object]
    first: int

    async def read(self, place: str, length: int, limits: Mapping[str, object]) -> tuple[list[Record], str | None]:
        """Read the records below a position."""
        below = int(place)
        above = max(self.first - 1, below - length)
        rows = await _rows(self.session, "find_ended", {**self.values, **limits, "above": above, "below": below})
        return rows, str(above + 1) if above >= self.first else None


class _Names(NamedTuple):
    """Reads pending or paused timers with a text in their names, in the order of the names."""

    session: Session
    values: Mapping[str, object]

    async def read(self, place: str, length: int, limits: Mapping[str, object]) -> tuple[list[Record], str | None]:
        """Read the names after a name."""
        own = {"after": place, "names_max": length}
        *rows, last = await _rows(self.session, "find_containing", {**self.values, **limits, **own})
        return rows, last["page"]


async def _find_in_sections(sections: _Log | _Names, bounds: _Bounds, *, place: str) -> Page:
    """Read one section per statement, until the page is full, the time limit has passed or the last section is read."""
    size, until_s, payload_bytes = bounds
    steps, timers = SectionSteps(), list[TimerState]()
    next_place: str | None = place
    while next_place is not None:
        limits = {"page_size": size - len(timers), "bytes": payload_bytes}
        rows, next_place = await steps.timed(sections.read(next_place, steps.length, limits))
        found = _page_of(rows, size - len(timers), payload_bytes)
        timers += found.timers
        if payload_bytes is not None:
            payload_bytes -= bytes_of(timer.payload for timer in found.timers)
        if found.next is not None:
            return Page(timers, next=found.next)
        if time.monotonic() >= until_s:
            break
    return Page(timers, next=next_place)


class SectionSteps:
    """The length of the section that one statement reads, adapted so that each statement takes about 0.1 s."""

    def __init__(self) -> None:
        self.length = STEP_LEAST

    async def timed(self, look: Awaitable[T]) -> T:
        """Run one statement, and adapt the section length for the next statement."""
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
        raise InvalidTimer(str(error), code=error.code or REFUSED) from error


def _page_of(rows: Sequence[Record], size: int, payload_bytes: int | None) -> Page:
    found = [dict(row) for row in rows]
    pages = [row.pop("page") for row in found]
    is_full = len(found) == size
    if payload_bytes is not None:
        is_full |= bytes_of(row["payload"] for row in found) >= payload_bytes
    return Page([TimerState.of(row) for row in found], next=pages[-1] if is_full else None)


async def find_keys(session: Session, state: str, wanted: TimerFilter, *, size: int, after_key: int = 0) -> list[int]:
    """Find the keys of PENDING or PAUSED timers, for a caller that changes all these timers.

    shape:   at most `size`, ascending; the last key is the next page's `after_key`
    errors:  StoreUnavailable  no answer before the timeout
             InvalidTimer      two filters of names
    source:  sql/functions/timers/find_keys.sql
    """
    _check_names(wanted, None, None, of_ended=False)
    rows = await session.call("find_keys", state=state, **asdict(wanted), after_key=after_key, page_size=size)
    return [row[0] for row in rows]


class TimerCount(NamedTuple):
    """The number of matching timers of clients (`matched`), and of jobs and processes (`left_out`).

    If `is_whole` is False, both numbers are lower bounds.
    """

    matched: int
    left_out: int
    is_whole: bool


async def count_timers(session: Session, state: str, wanted: TimerFilter, *, most: int) -> TimerCount:
    """Count PENDING or PAUSED timers; read at most `most` timers.

    errors:  StoreUnavailable  no answer before the timeout
             InvalidTimer      two filters of names
    source:  sql/functions/timers/count_timers.sql
    """
    _check_names(wanted, None, None, of_ended=False)
    ((matched, left_out),) = await session.call("count_timers", state=state, **asdict(wanted), timers_max=most)
    return TimerCount(matched, left_out, is_whole=matched + left_out < most)


async def find_timers_of_system(session: Session, timer_keys: Sequence[int]) -> set[int]:
    """Find the timers of jobs and processes among the given timers; clients can't change these timers.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/find_timers_of_system.sql
    """
    rows = await session.rows("find_timers_of_system", timer_keys=timer_keys)
    return {row["timer_key"] for row in rows}
