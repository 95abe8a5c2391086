"""Define FEEL's dates, times, date-times and durations: in nanoseconds, for the years -999,999,999 to 999,999,999."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from shardclock_server.feel.calendar import day_number, day_of, local_offsets_s, standard_offset_s, utc_offset_s

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS

# An offset in seconds east of UTC, the name of a zone, or None.
Zone = int | str | None


@dataclass(frozen=True, slots=True)
class Months:
    """A duration of years and months.

    units:   months, may be negative
    """

    months: int


@dataclass(frozen=True, slots=True)
class Elapsed:
    """A duration of days and time; a day is 24 hours.

    units:   nanoseconds, may be negative
    """

    ns: int


@dataclass(frozen=True, slots=True)
class Date:
    """A day that exists in the calendar."""

    year: int
    month: int
    day: int

    @property
    def number(self) -> int:
        """Count the days since 1970-01-01."""
        return day_number(self.year, self.month, self.day)

    @staticmethod
    def numbered(number: int) -> Date:
        """Make the date `number` days after 1970-01-01."""
        return Date(*day_of(number))


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day.

    shape:   `dated_offset_s` is the offset of the date-time from which the time was taken; it is set only if the zone
             has a name and its standard offset is different
    units:   nanoseconds since midnight, less than a day
    """

    ns: int
    zone: Zone = None
    dated_offset_s: int | None = None

    @property
    def offset_s(self) -> int | None:
        """Return the offset in seconds east of UTC; without a date, a zone has its offset without summer time."""
        if isinstance(self.zone, str):
            return standard_offset_s(self.zone) if self.dated_offset_s is None else self.dated_offset_s
        return self.zone

    def plus(self, ns: int) -> Time:
        """Add elapsed time, modulo one day."""
        return replace(self, ns=(self.ns + ns) % DAY_NS)


@dataclass(frozen=True, slots=True)
class DateTime:
    """A date and a time on the clock of a zone; make it with `at_local`, which handles skipped and repeated times.

    shape: `is_second` is set if the zone's clock shows the time twice and the date-time is the second of the two
           moments
    """

    date: Date
    ns: int
    zone: Zone = None
    is_second: bool = False

    @property
    def offset_s(self) -> int | None:
        """Return the zone's offset at the date-time, in seconds east of UTC."""
        if isinstance(self.zone, str):
            return local_offsets_s(self.zone, self.date.number, self.ns // SECOND_NS)[self.is_second]
        return self.zone

    @property
    def time(self) -> Time:
        """Return the time of day with the same offset."""
        plain = Time(self.ns, self.zone)
        return plain if plain.offset_s == self.offset_s else replace(plain, dated_offset_s=self.offset_s)

    @property
    def local_ns(self) -> int:
        """Count the nanoseconds since 1970-01-01T00:00 on the clock of the date-time's zone."""
        return self.date.number * DAY_NS + self.ns

    @property
    def utc_ns(self) -> int:
        """Count the nanoseconds since 1970-01-01T00:00Z; a date-time without a zone counts as UTC."""
        return self.local_ns - (self.offset_s or 0) * SECOND_NS

    def plus(self, ns: int) -> DateTime:
        """Add elapsed time; the result is in the same zone."""
        if isinstance(self.zone, str):
            return at_moment(self.utc_ns + ns, self.zone)
        return at_local(self.local_ns + ns, self.zone)

    def on_clock_of(self, zone: int | str) -> DateTime:
        """Return the same moment in another zone or with another offset."""
        if isinstance(zone, int):
            return at_local(self.utc_ns + zone * SECOND_NS, zone)
        return at_moment(self.utc_ns, zone)


def at_moment(utc_ns: int, zone: str) -> DateTime:
    """Convert a moment, in nanoseconds since 1970-01-01T00:00Z, to a date-time in a zone."""
    day, ns = divmod(utc_ns, DAY_NS)
    offset_s = utc_offset_s(zone, day, ns // SECOND_NS)
    return at_local(utc_ns + offset_s * SECOND_NS, zone, preferred_s=offset_s)


def at_local(local_ns: int, zone: Zone, *, preferred_s: int | None = None) -> DateTime:
    """Convert a zone's local time, in nanoseconds since 1970-01-01T00:00 on its clock, to a date-time.

    If the zone's clock skips the local time, the result is later by the length of the gap. If the local time occurs
    twice, the result is the moment with the offset `preferred_s`, otherwise the first moment.

    source:  `ofLocal` of java.time's ZonedDateTime
    """
    day, ns = divmod(local_ns, DAY_NS)
    if not isinstance(zone, str):
        return DateTime(Date.numbered(day), ns, zone)
    before_s, after_s = local_offsets_s(zone, day, ns // SECOND_NS)
    if before_s < after_s:
        return at_local(local_ns + (after_s - before_s) * SECOND_NS, zone)
    return DateTime(Date.numbered(day), ns, zone, is_second=before_s != after_s == preferred_s)


def midnight(date: Date) -> DateTime:
    """Convert a date to its midnight in UTC, which FEEL uses as the date's date-time."""
    return DateTime(date, 0, 0)


def from_python(moment: datetime) -> DateTime:
    """Convert a `datetime` of Python; a `ZoneInfo` becomes a named zone, any other zone an offset."""
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    offset, clock = moment.utcoffset(), moment.tzinfo
    offset_s = None if offset is None else round(offset.total_seconds())
    local_ns = day_number(moment.year, moment.month, moment.day) * DAY_NS
    local_ns += seconds * SECOND_NS + moment.microsecond * 1_000
    if isinstance(clock, ZoneInfo) and clock.key:
        return at_local(local_ns, clock.key, preferred_s=offset_s)
    return at_local(local_ns, offset_s)
