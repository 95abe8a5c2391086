"""Divide a zone's clock into stretches, in each of which it runs without a jump.

Within a stretch local time is the moment plus an offset; so to step or to count on a wall clock is to walk its
stretches, and the clock's changes need no case of their own: no stretch shows a time that the clock skips, and where
the clock goes back, the next stretch begins with times that were shown before (`Stretch.fresh`).

Moments and local times are whole seconds since 0001-01-01T00:00:00, in UTC or on the wall clock, because they neither
overflow nor need normalizing.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from timers.zone import offset_at

EPOCH = datetime.min.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = 86_400
END = date.max.toordinal() * DAY

# No clock has ever been put back by more than a day (Alaska, 1867).
BACK_MAX = 2 * DAY
# No two changes that cancel out are closer than four days (Freetown, 1939), so none hides between two probes.
PROBE = 3 * DAY
# No zone changed its clock before Manila did.
FIRST_CHANGE_YEAR = 1844


class Stretch(NamedTuple):
    """Hold a time in which a zone's clock runs without a jump, at most a year.

    units:   `start` and `end` (exclusive) are seconds in UTC; from the local second `fresh` on, the clock shows what it
             didn't show in the stretch before
    """

    start: int
    end: int
    offset: int
    fresh: int


class Change(NamedTuple):
    """Hold a change of a zone's clock: from the moment `at` on, it is `after` ahead of UTC instead of `before`."""

    at: datetime
    before: timedelta
    after: timedelta


def clock_changes(zone: ZoneInfo, start: datetime, until: datetime) -> Iterator[Change]:
    """Find when a zone changed its clock after `start`, up to and including `until`."""
    low, high = second_of(start), second_of(until)
    offset = _offset(zone, low)
    for year in range(year_of(low), year_of(high) + 1):
        for stretch in stretches(zone, year):
            if low < stretch.start <= high and stretch.offset != offset:
                yield Change(moment_of(stretch.start), offset * SECOND, stretch.offset * SECOND)
                offset = stretch.offset


@lru_cache(maxsize=4_096)
def stretches(zone: ZoneInfo, year: int) -> tuple[Stretch, ...]:
    """Divide a year of UTC at the changes of a zone's clock."""
    start, end = _year_start(year), _year_start(year + 1)
    offset = _offset(zone, start - BACK_MAX)
    fresh = start - BACK_MAX + offset
    found = []
    for at in _changes(zone, start - BACK_MAX, end) if year >= FIRST_CHANGE_YEAR else ():
        if at > start:
            found.append(Stretch(start, at, offset, fresh))
            start = at
        offset, fresh = _offset(zone, at), at + offset
    return (*found, Stretch(start, end, offset, fresh))


def _changes(zone: ZoneInfo, low: int, end: int) -> Iterator[int]:
    """Find the seconds from which on a zone's clock has another offset, after `low` and before `end`."""
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
    """Find the second between two of different offsets at which the first one's ends."""
    before = _offset(zone, low)
    return low + 1 + bisect_left(range(low + 1, high), True, key=lambda second: _offset(zone, second) != before)


def moment_of(second: int) -> datetime:
    """Turn a second in UTC into a moment."""
    return EPOCH + timedelta(seconds=second)


def second_of(moment: datetime) -> int:
    """Turn a moment into its second in UTC, rounded down."""
    return (moment - EPOCH) // SECOND


def year_of(second: int) -> int:
    """Find the year a second lies in, from 1 to 9999."""
    return date.fromordinal(min(max(second // DAY + 1, 1), date.max.toordinal())).year


def _year_start(year: int) -> int:
    return (date(year - 1, 12, 31).toordinal() if year > 1 else 0) * DAY


def _offset(zone: ZoneInfo, second: int) -> int:
    # A wall clock can't be read where it leaves the years 1 to 9999; no zone changes its clock there.
    second = min(max(second, BACK_MAX), END - BACK_MAX)
    return offset_at(moment_of(second), zone) // SECOND
