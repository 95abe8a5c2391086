"""Divide a zone's clock into spans with a constant offset from UTC.

Within a span, local time is the moment plus the offset. So computations on a wall clock work span by span, and a change
of the clock needs no special case. No span contains a local time that the clock skips. After the clock has moved back,
the next span begins with local times that the previous span also has (`OffsetSpan.first_new_local_s`).

Moments and local times are whole seconds since 0001-01-01T00:00:00, in UTC or on the wall clock. Whole seconds do not
overflow and need no normalization.
"""

from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from shardclock_server.timers.zone import offset_at

EPOCH = datetime.min.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = 86_400
END = date.max.toordinal() * DAY

# The largest step back of a clock was one day (Alaska, 1867).
BACK_MAX = 2 * DAY
# A change and its reversal are at least four days apart (Freetown, 1939), so probes at this distance find both.
PROBE = 3 * DAY
# The first year in which a zone changed its clock (Manila).
FIRST_CHANGE_YEAR = 1844
# The last single change in the zone database is Morocco's in 2087. Later changes follow rules that depend only on the
# year's length and on the weekday of 1 January. There are fourteen combinations of a year's length (365 or 366 days)
# and the weekday of 1 January. Each combination occurs in any 28 consecutive years if no year such as 2100 or 2200 is
# among them.
RULES_FROM_YEAR = 2101
KINDS_CYCLE_YEARS = 28


class OffsetSpan(NamedTuple):
    """A span of at most a year in which a zone's clock runs without a jump.

    units:   `start` and `end` (exclusive) are seconds in UTC; local seconds before `first_new_local_s` are also in the
             previous span
    """

    start: int
    end: int
    offset: int
    first_new_local_s: int


class OffsetChange(NamedTuple):
    """A change of a zone's clock: at the moment `at` its offset from UTC changes from `before` to `after`."""

    at: datetime
    before: timedelta
    after: timedelta


def clock_changes(zone: ZoneInfo, start: datetime, until: datetime) -> Iterator[OffsetChange]:
    """Find the changes of a zone's clock after `start`, up to and including `until`."""
    low, high = second_of(start), second_of(until)
    offset = _offset(zone, low)
    for year in range(year_of(low), year_of(high) + 1):
        for span in offset_spans(zone, year):
            if low < span.start <= high and span.offset != offset:
                yield OffsetChange(moment_of(span.start), offset * SECOND, span.offset * SECOND)
                offset = span.offset


def offset_spans(zone: ZoneInfo, year: int) -> tuple[OffsetSpan, ...]:
    """Divide a UTC year at the changes of a zone's clock. From 2129 on, use the changes of a similar earlier year."""
    if year < RULES_FROM_YEAR + KINDS_CYCLE_YEARS:
        return _searched_spans(zone, year)
    like = _like(_kind_of(year))
    shift = _year_start(year) - _year_start(like)
    return tuple(
        OffsetSpan(span.start + shift, span.end + shift, span.offset, span.first_new_local_s + shift)
        for span in _searched_spans(zone, like)
    )


def _kind_of(year: int) -> tuple[int, bool]:
    return date(year, 1, 1).weekday(), isleap(year)


@cache
def _like(kind: tuple[int, bool]) -> int:
    """Return an earlier year with the same length and first weekday, in which to search for changes of the clock."""
    years = range(RULES_FROM_YEAR, RULES_FROM_YEAR + KINDS_CYCLE_YEARS)
    return next(year for year in years if _kind_of(year) == kind)


@lru_cache(maxsize=4_096)
def _searched_spans(zone: ZoneInfo, year: int) -> tuple[OffsetSpan, ...]:
    start, end = _year_start(year), _year_start(year + 1)
    offset = _offset(zone, start - BACK_MAX)
    first_new_local_s = start - BACK_MAX + offset
    found = []
    for at in _changes(zone, start - BACK_MAX, end) if year >= FIRST_CHANGE_YEAR else ():
        if at > start:
            found.append(OffsetSpan(start, at, offset, first_new_local_s))
            start = at
        offset, first_new_local_s = _offset(zone, at), at + offset
    return (*found, OffsetSpan(start, end, offset, first_new_local_s))


def _changes(zone: ZoneInfo, low: int, end: int) -> Iterator[int]:
    """Find the seconds at which a zone's offset changes, after `low` and before `end`."""
    offset = _offset(zone, low)
    while low < end:
        high = min(low + PROBE, end - 1)
        if _offset(zone, high) == offset:
            low += PROBE
            continue
        low = _changed_at(zone, low, high)
        offset = _offset(zone, low)
        yield low


def _changed_at(zone: ZoneInfo, low: int, high: int) -> int:
    """Find the first second after `low`, up to `high`, at which the offset differs from the offset at `low`."""
    before = _offset(zone, low)
    return low + 1 + bisect_left(range(low + 1, high), True, key=lambda second: _offset(zone, second) != before)


def moment_of(second: int) -> datetime:
    """Convert a second in UTC to a moment."""
    return EPOCH + timedelta(seconds=second)


def second_of(moment: datetime) -> int:
    """Convert a moment to its second in UTC, rounded down."""
    return (moment - EPOCH) // SECOND


def year_of(second: int) -> int:
    """Return the year of a second, from 1 to 9999."""
    return date.fromordinal(min(max(second // DAY + 1, 1), date.max.toordinal())).year


def _year_start(year: int) -> int:
    return (date(year - 1, 12, 31).toordinal() if year > 1 else 0) * DAY


def _offset(zone: ZoneInfo, second: int) -> int:
    # Skip the first hours of year 1 and the last hours of year 9999: local times may be outside the years 1 to 9999,
    # and no clock changes in these hours.
    second = min(max(second, BACK_MAX), END - BACK_MAX)
    return offset_at(moment_of(second), zone) // SECOND
