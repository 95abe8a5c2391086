"""Parse, format and add ISO 8601 durations; calendar time and elapsed time are separate."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import isodate

from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.zone import to_local, to_utc

# The schema has the same limit, so a shard can read every row.
DURATION_CHARS_MAX = 100
# The Gregorian calendar repeats after 400 years, which are 4,800 months and 146,097 days: a whole number of seconds.
CYCLE_DAYS = 146_097
MONTH_AVERAGE = timedelta(days=CYCLE_DAYS) / 4_800
DURATION_DAYS_MAX = 25 * CYCLE_DAYS

# java.time (which Camunda 8 uses) also accepts small letters, and a plus sign before the P and before each number.
CAPITALS = str.maketrans("pymwdths", "PYMWDTHS")
PLUS = re.compile(r"\A\+(?=P)|(?<=[PYMWDTH])\+(?=[0-9])")
DATE_HALF = re.compile(r"P(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+W)?(?:[0-9]+D)?")
TIME_HALF = re.compile(r"(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+S)?")
FRACTION = re.compile(r"[.,]([0-9]+)([HMS])\Z")
UNIT_US = {"H": 3_600_000_000, "M": 60_000_000, "S": 1_000_000}


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration: months and days, which count on the calendar, and elapsed time. All values are 0 or more."""

    months: int
    days: int
    elapsed: timedelta

    def average(self) -> timedelta:
        """Return the exact average length of the duration over the calendar's 400-year cycle, with days of 24 hours.

        errors:  OverflowError  the duration is longer than 2.7 million years, the limit of Python's timedelta
        """
        return self.months * MONTH_AVERAGE + timedelta(days=self.days) + self.elapsed

    def __str__(self) -> str:
        """Return the canonical ISO 8601 text; Postgres's `::interval` parses it to the same value.

        shape:   a week is written as 7 days; hours may be more than 24; seconds have at most 6 decimals; zero is PT0S
        """
        return _written(self.months, self.days, self.elapsed)


# The results are cached, because a file of timers has few different delays; texts have at most 100 characters, so the
# size of the cache is limited.
@lru_cache(maxsize=4_096)
def parse_duration(text: str) -> Duration:
    """Parse an ISO 8601 duration such as P1DT12H or PT0.5S; the last number after the T may have a fraction.

    Small letters count as capitals; a plus sign before the P or before a number is ignored.

    units:   fractions of a microsecond are rounded up
    errors:  InvalidTimer  the text is not a duration, has a minus sign, or means 10,000 years or more
    """
    plain = PLUS.sub("", text.translate(CAPITALS)) if len(text) <= DURATION_CHARS_MAX else ""
    if (halves := _halves(plain)) is None:
        raise _misread(text, plain)
    date, time, fraction = halves
    try:
        duration = Duration(*_calendar_time(date), elapsed=_elapsed_time(time) + fraction)
        if _is_in_bounds(duration):
            return duration
    except OverflowError:
        pass
    raise InvalidTimer(f"{shortened(text)} is too long; a duration must be shorter than 10,000 years")


def add_duration(
    moment: datetime, length: Duration, zone: ZoneInfo, *, times: int = 1, local: datetime | None = None
) -> datetime:
    """Add a duration, multiplied by `times`, to a moment: months and days on the zone's wall clock, then elapsed time.

    Months are added first; if the resulting month is too short for the day, the day is the month's last day. A local
    time that the clock skips moves forward; of a local time that the clock shows twice, the first moment is used. If
    `moment` was moved forward because of a skipped local time, `local` is that local time.

    shape:   aware, in UTC
    errors:  OverflowError  the result is outside the years 1 to 9999, in UTC or on the wall clock
    """
    if times and (length.months or length.days):
        local = _months_on(local or to_local(moment, zone), times * length.months)
        moment = to_utc(local + timedelta(days=times * length.days), zone)
    return moment + times * length.elapsed


def ceiling(digits: str, *, unit_us: int) -> timedelta:
    """Round a decimal fraction of a unit up to microseconds, exactly, so that no timer is due early."""
    scale: int = 10 ** len(digits)
    return timedelta(microseconds=-(-int(digits) * unit_us // scale))


def _months_on(local: datetime, months: int) -> datetime:
    year, month = divmod(local.year * 12 + local.month - 1 + months, 12)
    if not MINYEAR <= year <= MAXYEAR:
        raise OverflowError("years end at 9999")
    day = min(local.day, monthrange(year, month + 1)[1])
    return local.replace(year=year, month=month + 1, day=day)


@lru_cache(maxsize=4_096)
def _written(months: int, days: int, elapsed: timedelta) -> str:
    years, months = divmod(months, 12)
    minutes, rest = divmod(elapsed, timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    seconds = str(rest.seconds)
    if rest.microseconds:
        seconds += f".{rest.microseconds:06}".rstrip("0")
    date = _parts((years, "Y"), (months, "M"), (days, "D"))
    time = _parts((hours, "H"), (minutes, "M")) + (f"{seconds}S" if rest else "")
    if not date and not time:
        return "PT0S"
    return f"P{date}T{time}" if time else f"P{date}"


def looks_like_duration(text: str) -> bool:
    """Return whether a text is a duration, not a moment: a moment begins with a digit."""
    return text.lstrip("+-")[:1] in ("P", "p")


def _misread(text: str, plain: str) -> InvalidTimer:
    if "-" in plain and _halves(plain.replace("-", "")):
        return InvalidTimer(
            f"{shortened(text)} has a minus sign, and nothing is due before now; write a duration without it"
        )
    return InvalidTimer(f"{shortened(text)} is not an ISO 8601 duration; write one such as PT15M, P1DT12H or PT0.5S")


def _halves(text: str) -> tuple[str, str, timedelta] | None:
    date, separator, time = text.partition("T")
    fraction = timedelta(0)
    if found := FRACTION.search(time):
        fraction = ceiling(found[1], unit_us=UNIT_US[found[2]])
        time = time[: found.start()] + found[2]
    is_valid = DATE_HALF.fullmatch(date) and (TIME_HALF.fullmatch(time) if separator else date != "P")
    return (date, time, fraction) if is_valid else None


# isodate returns the same value for P1D and PT24H, so the date part and the time part are parsed by separate calls.
# isodate parses fractions as floats, which may round down, so isodate gets only whole numbers.
def _calendar_time(date: str) -> tuple[int, int]:
    if date == "P":
        return 0, 0
    length = isodate.parse_duration(date, as_timedelta_if_possible=False)
    return int(length.years) * 12 + int(length.months), length.tdelta.days


def _elapsed_time(time: str) -> timedelta:
    length: timedelta = isodate.parse_duration(f"PT{time}") if time else timedelta(0)
    return length


def _is_in_bounds(duration: Duration) -> bool:
    return duration.average() < timedelta(days=DURATION_DAYS_MAX)


def _parts(*parts: tuple[int, str]) -> str:
    return "".join(f"{number}{unit}" for number, unit in parts if number)
