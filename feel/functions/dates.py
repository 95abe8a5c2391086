"""Make dates, times, date-times and durations, and read the calendar."""

from __future__ import annotations

from datetime import date as python_date
from decimal import Decimal

from shardclock_server.feel.arithmetic import Number
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.calendar import CYCLE_YEARS, days_in_month, exists
from shardclock_server.feel.functions.registry import builtin, counted
from shardclock_server.feel.temporal import DAY_NS, SECOND_NS, Date, DateTime, Elapsed, Months, Time, at_local
from shardclock_server.feel.temporal_text import (
    CHARS_MAX,
    OFFSET_S_MAX,
    checked,
    parse_date,
    parse_date_time,
    parse_duration,
    parse_time,
    parse_zone,
    temporal_text,
)
from shardclock_server.feel.values import FeelValue

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
TEXT_STEPS = 10
WHOLE_MAX = 10**12
DAY = "date: date | date and time"


@counted("date", "from: string | date | date and time")
def date(budget: Budget, value: str | Date | DateTime) -> Date | None:
    """Read a date, or return the date of a date-time."""
    budget.spend(TEXT_STEPS)
    return parse_date(value) if isinstance(value, str) else _day(value)


@builtin("date", "year: number, month: number, day: number")
def date_of(year: Number, month: Number, day: Number) -> Date | None:
    """Make a date."""
    parts = [_whole(part) for part in (year, month, day)]
    numbers = [part for part in parts if part is not None]
    return Date(*numbers) if len(numbers) == 3 and exists(*numbers) else None


@counted("time", "from: string | time | date | date and time")
def time(budget: Budget, value: str | Time | Date | DateTime) -> Time | None:
    """Read a time, which may begin with a T.

    A date-time is converted to its time and offset, and a date to 00:00 in UTC.
    """
    budget.spend(TEXT_STEPS)
    match value:
        case str():
            return parse_time(value.removeprefix("T")) if len(value) <= CHARS_MAX else None
        case Date():
            return Time(0, 0)
        case DateTime():
            return value.time
    return value


@builtin("time", "hour: number, minute: number, second: number")
@builtin("time", "hour: number, minute: number, second: number, offset: days and time duration?")
def time_of(hour: Number, minute: Number, second: Number, offset: Elapsed | None = None) -> Time | None:
    """Make a time; the second may have decimals."""
    whole_hour, whole_minute = _whole(hour), _whole(minute)
    if whole_hour is None or whole_minute is None:
        return None
    if not (0 <= whole_hour <= 23 and 0 <= whole_minute <= 59 and 0 <= second < 60):
        return None
    offset_s = None if offset is None else offset.ns // SECOND_NS
    if offset_s is not None and abs(offset_s) > OFFSET_S_MAX:
        return None
    minutes = whole_hour * 60 + whole_minute
    return Time(minutes * 60 * SECOND_NS + int(Decimal(second) * SECOND_NS), offset_s)


@counted("date and time", "from: string | date and time | date")
def date_and_time(budget: Budget, value: str | DateTime | Date) -> DateTime | None:
    """Read a date-time; a date is converted to its midnight."""
    budget.spend(TEXT_STEPS)
    match value:
        case str():
            return parse_date_time(value)
        case Date():
            return DateTime(value, 0)
    return value


@builtin("date and time", "date: date | date and time, time: time")
def date_and_time_of(day: Date | DateTime, clock: Time) -> DateTime | None:
    """Join a date and a time; the zone of the time is the zone of the result."""
    return checked(at_local(_day(day).number * DAY_NS + clock.ns, clock.zone))


@builtin("date and time", "date: date and time, timezone: string")
def date_and_time_in(moment: DateTime, timezone: str) -> DateTime | None:
    """Convert a moment to a zone; null for a moment without a zone, and for an unknown zone."""
    zone = parse_zone(timezone)
    return None if moment.zone is None or zone is None else checked(moment.on_clock_of(zone))


@counted("duration", "from: string | years and months duration | days and time duration")
def duration(budget: Budget, value: str | Months | Elapsed) -> Months | Elapsed | None:
    """Read a duration."""
    budget.spend(TEXT_STEPS)
    return parse_duration(value) if isinstance(value, str) else value


@builtin("cycle", "interval: years and months duration | days and time duration")
def cycle_without_end(interval: Months | Elapsed) -> str:
    """Write an endless ISO 8601 repeat, for a timer's cycle."""
    return f"R/{temporal_text(interval)}"


@builtin("cycle", "repetitions: number, interval: years and months duration | days and time duration")
def cycle(repetitions: Number, interval: Months | Elapsed) -> str | None:
    """Write an ISO 8601 repeat, for a timer's cycle; null if the count is negative or has decimals."""
    times = _whole(repetitions)
    return None if times is None or times < 0 else f"R{times}/{temporal_text(interval)}"


@builtin("years and months duration", "from: date | date and time, to: date | date and time")
def months_between(start: Date | DateTime, end: Date | DateTime) -> Months | None:
    """Count the whole months from one day to another; the times of day are ignored."""
    first, last = _day(start), _day(end)
    months = (last.year - first.year) * 12 + last.month - first.month
    if months > 0 and last.day < first.day:
        months -= 1
    if months < 0 and last.day > first.day:
        months += 1
    return checked(Months(months))


@builtin("day of year", DAY)
def day_of_year(value: Date | DateTime) -> int:
    """Return the number of a day in its year, from 1."""
    day = _day(value)
    return day.number - Date(day.year, 1, 1).number + 1


@builtin("day of week", DAY)
def day_of_week(value: Date | DateTime) -> str:
    """Name the day of the week, in English."""
    return DAYS[(_day(value).number + 3) % 7]  # 1970-01-01 was a Thursday


@builtin("month of year", DAY)
def month_of_year(value: Date | DateTime) -> str:
    """Name the month, in English."""
    return MONTHS[_day(value).month - 1]


@builtin("week of year", DAY)
def week_of_year(value: Date | DateTime) -> int:
    """Return the number of the week, as ISO 8601 defines it."""
    day = _day(value)
    same_calendar = CYCLE_YEARS + day.year % CYCLE_YEARS  # A year that Python supports, with the same weekdays.
    return python_date(same_calendar, day.month, day.day).isocalendar().week


@builtin("last day of month", DAY)
def last_day_of_month(value: Date | DateTime) -> Date:
    """Find the last day of a day's month."""
    day = _day(value)
    return Date(day.year, day.month, days_in_month(day.year, day.month))


def property_of(value: FeelValue, name: str) -> FeelValue:
    """Return a component, such as the year, of a date, time, date-time or duration; null for an unknown component."""
    match value:
        case Date():
            return _date_part(value, name)
        case DateTime():
            part = _date_part(value.date, name)
            return _time_part(value.time, name) if part is None else part
        case Time():
            return _time_part(value, name)
        case Months():
            months = value.months
            return _signed({"years": abs(months) // 12, "months": abs(months) % 12}.get(name), months)
        case Elapsed():
            ns = value.ns
            seconds = abs(ns) // SECOND_NS
            parts = {"days": seconds // 86_400, "hours": seconds // 3_600 % 24, "minutes": seconds // 60 % 60}
            return _signed({**parts, "seconds": seconds % 60}.get(name), ns)
    return None


def _date_part(day: Date, name: str) -> int | None:
    match name:
        case "year":
            return day.year
        case "month":
            return day.month
        case "day":
            return day.day
        case "weekday":
            return (day.number + 3) % 7 + 1
    return None


def _time_part(clock: Time, name: str) -> FeelValue:
    seconds, offset_s = clock.ns // SECOND_NS, clock.offset_s
    match name:
        case "hour":
            return seconds // 3_600
        case "minute":
            return seconds // 60 % 60
        case "second":
            return seconds % 60
        case "time offset":
            return None if offset_s is None else Elapsed(offset_s * SECOND_NS)
        case "timezone":
            return clock.zone if isinstance(clock.zone, str) else None
    return None


def _signed(part: int | None, sign: int) -> int | None:
    return -part if part and sign < 0 else part


def _day(value: Date | DateTime) -> Date:
    return value if isinstance(value, Date) else value.date


def _whole(number: Number) -> int | None:
    """Convert a number without decimals to an int; None if the number has decimals or is too large for a calendar."""
    return int(number) if -WHOLE_MAX < number < WHOLE_MAX and number == int(number) else None
