"""Hold FEEL's dates, times, date-times and durations: to the nanosecond, in the years -999,999,999 to 999,999,999."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from shardclock_server.feel.calendar import day_number, day_of, local_offsets_s, standard_offset_s, utc_offset_s

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS

# What a clock is read in: seconds east of UTC, the name of a zone, or neither.
Zone = int | str | None


@dataclass(frozen=True, slots=True)
class Months:
    """Hold a duration of years and months.

    units:   months, negative for a duration back
    """

    months: int


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Hold a duration of days and time; a day is 24 hours.

    units:   nanoseconds, negative for a duration back
    """

    ns: int


@dataclass(frozen=True, slots=True)
class Date:
    """Hold a day of the calendar; it exists."""

    year: int
    month: int
    day: int

    @property
    def number(self) -> int:
        """Count the days since 1970-01-01."""
        return day_number(self.year, self.month, self.day)

    @staticmethod
    def numbered(number: int) -> Date:
        """Make the date that lies so many days after 1970-01-01."""
        return Date(*day_of(number))


@dataclass(frozen=True, slots=True)
class Time:
    """Hold a time of day.

    shape:   `dated_offset_s` is the offset of the date-time that a time of a named zone was taken from, if a time
             without a date has another
    units:   nanoseconds since midnight, less than a day
    """

    ns: int
    zone: Zone = None
    dated_offset_s: int | None = None

    @property
    def offset_s(self) -> int | None:
        """Return the seconds east of UTC; without a date, a zone's are those without summer time."""
        if isinstance(self.zone, str):
            return standard_offset_s(self.zone) if self.dated_offset_s is None else self.dated_offset_s
        return self.zone

    def plus(self, ns: int) -> Time:
        """Add elapsed time; after midnight the clock begins again."""
        return replace(self, ns=(self.ns + ns) % DAY_NS)


@dataclass(frozen=True, slots=True)
class DateTime:
    """Hold a day and a time on it, on the clock of its zone; `at_local` makes one that the clock shows.

    shape:   `is_second` tells apart the two moments at which a named zone's clock shows the same time: True, the second
    """

    date: Date
    ns: int
    zone: Zone = None
    is_second: bool = False

    @property
    def offset_s(self) -> int | None:
        """Return the seconds east of UTC at that time."""
        if isinstance(self.zone, str):
            return local_offsets_s(self.zone, self.date.number, self.ns // SECOND_NS)[self.is_second]
        return self.zone

    @property
    def time(self) -> Time:
        """Return the time of day, which keeps the offset."""
        plain = Time(self.ns, self.zone)
        return plain if plain.offset_s == self.offset_s else replace(plain, dated_offset_s=self.offset_s)

    @property
    def local_ns(self) -> int:
        """Count the nanoseconds since 1970-01-01T00:00 on its own clock."""
        return self.date.number * DAY_NS + self.ns

    @property
    def utc_ns(self) -> int:
        """Count the nanoseconds since 1970-01-01T00:00Z; without a zone its clock is taken for UTC's."""
        return self.local_ns - (self.offset_s or 0) * SECOND_NS

    def plus(self, ns: int) -> DateTime:
        """Add elapsed time, and read the result on the same zone's clock."""
        if isinstance(self.zone, str):
            return at_moment(self.utc_ns + ns, self.zone)
        return at_local(self.local_ns + ns, self.zone)

    def on_clock_of(self, zone: int | str) -> DateTime:
        """Read the same moment on the clock of another zone, or with another offset."""
        if isinstance(zone, int):
            return at_local(self.utc_ns + zone * SECOND_NS, zone)
        return at_moment(self.utc_ns, zone)


def at_moment(utc_ns: int, zone: str) -> DateTime:
    """Make the date-time that a zone's clock shows so many nanoseconds after 1970-01-01T00:00Z."""
    day, ns = divmod(utc_ns, DAY_NS)
    offset_s = utc_offset_s(zone, day, ns // SECOND_NS)
    return at_local(utc_ns + offset_s * SECOND_NS, zone, preferred_s=offset_s)


def at_local(local_ns: int, zone: Zone, *, preferred_s: int | None = None) -> DateTime:
    """Make the date-time at which a clock shows so many nanoseconds since 1970-01-01T00:00.

    A local time that the clock skips moves forward by as much as the clock does. Of a local time that comes twice, the
    moment with the offset `preferred_s` is taken, else the first.

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
    """Read a date as its first moment in UTC, as FEEL does where it needs a date-time."""
    return DateTime(date, 0, 0)


def from_python(moment: datetime) -> DateTime:
    """Read one of Python's date-times; a `ZoneInfo` stays a named zone, any other is an offset."""
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    offset, clock = moment.utcoffset(), moment.tzinfo
    offset_s = None if offset is None else round(offset.total_seconds())
    local_ns = day_number(moment.year, moment.month, moment.day) * DAY_NS
    local_ns += seconds * SECOND_NS + moment.microsecond * 1_000
    if isinstance(clock, ZoneInfo) and clock.key:
        return at_local(local_ns, clock.key, preferred_s=offset_s)
    return at_local(local_ns, offset_s)
