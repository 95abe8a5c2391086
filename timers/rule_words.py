"""Describe the rule of a schedule in plain words: every 15 minutes from 09:00 to 17:59 on Monday to Friday, UTC."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from shardclock_server.timers.cron import Cron
from shardclock_server.timers.cron_fields import (
    DAY,
    LAST_DAY,
    MONTH,
    NICKNAMES,
    SPRING_FIELDS,
    SPRING_WEEKDAY,
    UNIX_WEEKDAY,
    WEEKDAY_IN_MONTH,
    WORKDAY,
    CronFields,
    numbers_of,
)
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduleRule
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.zone import to_local

TIMES_MAX = 4  # The text lists at most this many times of a day one by one.
LISTED_MAX = 6  # One list names at most this many numbers.
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEK = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
NTH = ("first", "second", "third", "fourth", "fifth")
UNITS = (("year", "years"), ("month", "months"), ("week", "weeks"), ("day", "days"), ("hour", "hours"),
         ("minute", "minutes"), ("second", "seconds"))  # fmt: skip


def describe_rule(rule: ScheduleRule) -> str:
    """Describe a rule and its time zone.

    shape:   a phrase without a capital letter at its beginning and without a full stop
    """
    if isinstance(rule, Cron):
        return f"{_cron(rule)}, {rule.zone}"
    assert isinstance(rule, Repeat), "a rule is one of the two"
    return f"{_repeat(rule)}, {rule.zone}"


def _repeat(rule: Repeat) -> str:
    times = "" if rule.repetitions == WITHOUT_END else f", {rule.repetitions:,} times"
    if rule.repetitions == 1:
        times = ", once"
    start = f", from {_moment(rule.start, rule.zone)} on" if rule.start else ""
    end = f", until {_moment(rule.end, rule.zone)}" if rule.end else ""
    return f"every {_period(rule.period)}{times}{start}{end}"


def _period(period: Duration) -> str:
    years, months = divmod(period.months, 12)
    weeks, days = (0, period.days) if period.days % 7 else (period.days // 7, 0)
    minutes, rest = divmod(period.elapsed, timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    seconds = rest.total_seconds() if rest.microseconds else rest.seconds
    numbers = (years, months, weeks, days, hours, minutes, seconds)
    given = [(number, units) for number, units in zip(numbers, UNITS, strict=True) if number]
    if len(given) == 1 and given[0][0] == 1:
        return given[0][1][0]
    return " ".join(f"{number:,} {units[number != 1]}" for number, units in given)


def _moment(moment: datetime, zone: ZoneInfo) -> str:
    local = to_local(moment, zone).replace(tzinfo=None)
    return local.isoformat(" ", "seconds" if local.second or local.microsecond else "minutes")


def _cron(rule: Cron) -> str:
    words = NICKNAMES.get(rule.text, rule.text).split()
    is_spring = len(words) == SPRING_FIELDS
    day, month, weekday = words[-3:]
    parts = [_times(rule.fields), _days(day, weekday, is_spring=is_spring), _months(month)]
    if not parts[1] and rule.fields.times_per_day <= TIMES_MAX:
        parts[1] = "every day"
    return " ".join(filter(None, parts))


def _times(fields: CronFields) -> str:
    """Describe the times of a day."""
    seconds, minutes, hours = fields.seconds, fields.minutes, fields.hours
    if fields.times_per_day <= TIMES_MAX:
        return f"at {_joined([_time(*time) for time in product(hours, minutes, seconds)])}"
    if seconds != (0,):
        return f"{_of_minutes(seconds, minutes)}{_of_hours(hours)}"
    if minutes == (0,):
        return _full_hours(hours)
    every = _step(minutes, 60)
    if every is None:
        of_hours = " of every hour" if len(hours) == 24 else _of_hours(hours)
        return f"at {_named('minute', minutes)}{of_hours}"
    return f"{_each(every, 'minute')}{_of_hours(hours)}"


def _full_hours(hours: Sequence[int]) -> str:
    if (every := _step(hours, 24)) is not None:
        return _each(every, "hour")
    if _is_range(hours):
        return f"every hour from {_time(hours[0], 0, 0)} to {_time(hours[-1], 0, 0)}"
    return f"at {_listed(hours, lambda hour: _time(hour, 0, 0))}"


def _of_minutes(seconds: Sequence[int], minutes: Sequence[int]) -> str:
    """Describe the minutes and seconds within an hour, for a rule that has seconds."""
    every, are_all = _step(seconds, 60), len(minutes) == 60
    if every is not None:
        return _each(every, "second") if are_all else f"{_each(every, 'second')} of {_named('minute', minutes)}"
    return f"at {_named('second', seconds)} of {'every minute' if are_all else _named('minute', minutes)}"


def _each(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _named(unit: str, numbers: Sequence[int]) -> str:
    return f"{unit}{'' if len(numbers) == 1 else 's'} {_listed(numbers)}"


def _of_hours(hours: Sequence[int]) -> str:
    if len(hours) == 24:
        return ""
    if len(hours) == 1 or _is_range(hours):
        return f" from {_time(hours[0], 0, 0)} to {_time(hours[-1], 59, 0)}"
    return f" in the hours {_listed(hours)}"


def _days(day: str, weekday: str, *, is_spring: bool) -> str:
    """Describe the days.

    In Spring's cron both day fields must match; in Unix cron both must match only if one of them begins with `*`.
    """
    both = is_spring or day.startswith("*") or weekday.startswith("*")
    by_day, by_weekday = _days_of_month(day), _weekdays(weekday, is_spring=is_spring)
    if by_day and by_weekday:
        return f"on {by_day}, only on {by_weekday}" if both else f"on {by_day} and on {by_weekday}"
    # In Unix cron one matching day field is enough, so with a field of all days the rule matches every day.
    if not both:
        return ""
    return f"on {by_day or by_weekday}" if by_day or by_weekday else ""


def _days_of_month(field: str) -> str:
    """Describe a day-of-month field; '' if the field has all days."""
    numbers, named = set[int](), list[str]()
    for item in field.split(","):
        if item == "LW":
            named.append("the last workday of the month")
        elif match := LAST_DAY.fullmatch(item):
            back = int(match["back"] or 0)
            before = f"the day {f'{back} days ' if back > 1 else ''}before " if back else ""
            named.append(f"{before}the last day of the month")
        elif match := WORKDAY.fullmatch(item):
            named.append(f"the workday nearest to day {int(match['day'])} of the month")
        elif item != "?":
            numbers |= {*numbers_of(item, DAY)}
    if len(numbers) == DAY.highest or field == "?":
        return ""
    plain = [f"{_named('day', sorted(numbers))} of the month"] if numbers else []
    return _joined(plain + named)


def _weekdays(field: str, *, is_spring: bool) -> str:
    """Describe a day-of-week field; '' if the field has all days."""
    numbers, named = set[int](), list[str]()
    kind = SPRING_WEEKDAY if is_spring else UNIX_WEEKDAY
    for item in field.split(","):
        if match := WEEKDAY_IN_MONTH.fullmatch(item):
            (day,) = numbers_of(match["day"], kind)
            nth = "last" if match["nth"] is None else NTH[int(match["nth"]) - 1]
            named.append(f"the {nth} {WEEK[day % 7]} of the month")
        elif item != "?":
            numbers |= {day % 7 for day in numbers_of(item, kind)}
    if len(numbers) == len(WEEK) or field == "?":
        return ""
    # A week begins with Monday here, so that MON-FRI and SAT,SUN are ranges.
    days = sorted(numbers, key=lambda day: (day - 1) % 7)
    places = [(day - 1) % 7 for day in days]
    plain = [_listed(places, lambda place: WEEK[(place + 1) % 7])] if places else []
    return _joined(plain + named)


def _months(field: str) -> str:
    months = numbers_of(field, MONTH)
    return "" if len(months) == len(MONTH_NAMES) else f"in {_listed(months, lambda month: MONTH_NAMES[month - 1])}"


def _time(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _listed(numbers: Sequence[int], text_of: Callable[[int], str] = str) -> str:
    """List ascending numbers: a range of three or more as its first and last number; a long list is shortened."""
    texts = [text_of(number) for number in numbers]
    if len(numbers) > 2 and _is_range(numbers):
        return f"{texts[0]} to {texts[-1]}"
    if len(texts) > LISTED_MAX:
        texts = [*texts[: LISTED_MAX - 1], f"{len(texts) - LISTED_MAX + 1} more"]
    return _joined(texts)


def _joined(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _is_range(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _step(numbers: Sequence[int], size: int) -> int | None:
    """Return the step between the numbers if they start at 0 and divide a whole cycle evenly; otherwise None."""
    if len(numbers) < 2 or size % len(numbers):
        return None
    step = size // len(numbers)
    return step if list(numbers) == list(range(0, size, step)) else None
