"""Parse a cron text into times of day and days of each month.

Six fields are Spring's cron (second minute hour day-of-month month day-of-week); five fields are Unix cron, which has
no second. The two kinds have three differences. In Spring's cron both day fields must match; in Unix cron one matching
field is enough, unless a day field begins with `*`. In the day-of-week field, steps over `*` begin with Monday in
Spring's cron, and with Sunday in Unix cron. Only Spring's cron has `?`. All other syntax is allowed in both kinds: Unix
cron may also use L, LW, L-3, 15W, 5L and 5#2.
"""

import re
from calendar import SATURDAY, SUNDAY
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from shardclock_server.timers.refusal import InvalidTimer, shortened

CRON_CHARS_MAX = 200
NICKNAMES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
SPRING_FIELDS, UNIX_FIELDS, QUARTZ_FIELDS = 6, 5, 7

ITEM = re.compile(r"(?:\*|(?P<low>[0-9]+|[A-Z]{3})(?:-(?P<high>[0-9]+|[A-Z]{3}))?)(?:/(?P<step>[0-9]+))?")
LAST_DAY = re.compile(r"L(?:-(?P<back>[0-9]+))?")
WORKDAY = re.compile(r"(?P<day>[0-9]+)W")
WEEKDAY_IN_MONTH = re.compile(r"(?P<day>[0-9]+|[A-Z]{3})(?:L|#(?P<nth>[0-9]+))")

MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# A set of days is a bit mask: bit d stands for day d of a month. Shifted left by the first day of a weekday, this mask
# is the set of all days of this weekday.
EVERY_SEVENTH = 0b10000001000000100000010000001


class Month(NamedTuple):
    """The weekday of a month's first day (0 is Monday) and the month's length."""

    first: int
    length: int


class YearDays(NamedTuple):
    """The matching days of a year with a given length and first weekday.

    `months` has one bit mask for each month; `total` is the number of days in all months.
    """

    months: tuple[int, ...]
    total: int


class CronFields(NamedTuple):
    """A parsed cron text.

    shape:   seconds, minutes, hours  ascending, not empty
             years                    one entry for each kind of year, at index 2 × (weekday of 1 January) + (1 in a
                                      leap year)
             fires_twice              whether the rule fires twice if the clock shows a local time twice
    """

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    years: tuple[YearDays, ...]
    fires_twice: bool

    @property
    def times_per_day(self) -> int:
        """Return how many times the rule fires on a day that matches."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)


class CronFieldKind(NamedTuple):
    """The allowed values of a field: the range, the numbers' names in order, and the first number of a `*` (`star`)."""

    name: str
    lowest: int
    highest: int
    star: int
    names: tuple[str, ...] = ()
    more: str = ""


Picker = Callable[[Month], int]

SECOND = CronFieldKind("second", 0, 59, star=0)
MINUTE = CronFieldKind("minute", 0, 59, star=0)
HOUR = CronFieldKind("hour", 0, 23, star=0)
DAY = CronFieldKind("day-of-month", 1, 31, star=1, more=", L, LW, L-3 or 15W")
MONTH = CronFieldKind("month", 1, 12, star=1, names=MONTHS)
UNIX_WEEKDAY = CronFieldKind("day-of-week", 0, 7, star=0, names=WEEKDAYS, more=", 5L or 5#2")
SPRING_WEEKDAY = UNIX_WEEKDAY._replace(star=1)


def parse_fields(text: str) -> CronFields:
    """Parse a cron text of five or six fields, or a nickname such as @daily.

    errors:  InvalidTimer  the text is not cron; a well-formed rule without a match, such as 30 February, is accepted
    """
    words = _words(text)
    canonical = " ".join(words)
    if canonical.startswith("@"):
        canonical = canonical.lower()
        words = _nickname(canonical, text).split()
    try:
        return _fields(canonical, words)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{shortened(text)} {refusal}") from None


def _words(text: str) -> list[str]:
    if len(text) > CRON_CHARS_MAX:
        raise InvalidTimer(f"{shortened(text)} is longer than {CRON_CHARS_MAX} characters; write a shorter cron rule")
    if not text.isprintable() or not text.isascii():
        raise InvalidTimer(
            f"{shortened(text)} contains a character that cron does not use;"
            " write ASCII letters, digits, signs and spaces on one line"
        )
    return text.upper().split()


def _nickname(nickname: str, text: str) -> str:
    if nickname not in NICKNAMES:
        raise InvalidTimer(f"{shortened(text)} is not a nickname that we know; write one of {', '.join(NICKNAMES)}")
    return NICKNAMES[nickname]


def _fields(text: str, words: list[str]) -> CronFields:
    is_spring = len(words) == SPRING_FIELDS
    if len(words) == UNIX_FIELDS:
        words = ["0", *words]
    if len(words) != SPRING_FIELDS:
        raise InvalidTimer(_miscounted(len(words)))
    second, minute, hour, day, month, weekday = words
    return CronFields(
        text,
        numbers_of(second, SECOND),
        numbers_of(minute, MINUTE),
        numbers_of(hour, HOUR),
        _kinds_of_year(_days(day, weekday, is_spring=is_spring), numbers_of(month, MONTH)),
        fires_twice=minute.startswith("*") or hour.startswith("*"),
    )


def _miscounted(count: int) -> str:
    if count == QUARTZ_FIELDS:
        return "has seven fields, the seventh being Quartz's year; write six, without the year"
    return (
        f"has {count} field{'' if count == 1 else 's'}; write six (second minute hour day-of-month month day-of-week)"
        " or five (without the second)"
    )


def numbers_of(word: str, kind: CronFieldKind) -> tuple[int, ...]:
    bits = 0
    for item in word.split(","):
        bits |= _item(item, kind)
    return tuple(number for number in range(kind.highest + 1) if bits >> number & 1)


def _item(item: str, kind: CronFieldKind) -> int:
    match = ITEM.fullmatch(item)
    if match is None:
        raise _misread(item, kind)
    low, high, step = match.groups()
    if low is None:
        first, last = kind.star, kind.highest
    elif high is not None:
        first, last = _range(item, kind, low, high)
    else:
        first = _number(low, kind)
        last = kind.highest if step else first
    if step and not int(step):
        raise InvalidTimer(f"has the {kind.name} {shortened(item)}, whose step is zero; write a step of 1 or more")
    return sum(1 << number for number in range(first, last + 1, int(step or 1)))


def _range(item: str, kind: CronFieldKind, low: str, high: str) -> tuple[int, int]:
    first, last = _number(low, kind), _number(high, kind)
    if kind.names is WEEKDAYS:
        # A week may begin or end with Sunday. A range from Sunday to Sunday could mean Sundays or every day, so this
        # range is refused.
        first, last = first % 7, last or (7 if high == "SUN" else 0)
        if (first, last) == (0, 7) and (low, high) != ("0", "7"):
            raise InvalidTimer(f"has the {kind.name} {shortened(item)}; write SUN for Sundays, or * for every day")
    if first > last:
        raise InvalidTimer(
            f"has the {kind.name} {shortened(item)}, which runs backwards; write the lower bound first,"
            " or two ranges with a comma"
        )
    return first, last


def _number(word: str, kind: CronFieldKind) -> int:
    if word in kind.names:
        return kind.names.index(word) + kind.lowest
    if not word.isdigit():
        raise _misread(word, kind)
    number = int(word)
    if not kind.lowest <= number <= kind.highest:
        raise InvalidTimer(f"has the {kind.name} {shortened(word)}; write {kind.lowest} to {kind.highest}")
    return number


def _misread(item: str, kind: CronFieldKind) -> InvalidTimer:
    if item == "?":
        return InvalidTimer(
            f"has the {kind.name} '?', which only stands alone in a day field of six-field cron; write *"
        )
    names = f" or {kind.names[0]} to {kind.names[-1]}" if kind.names else ""
    return InvalidTimer(
        f"has the {kind.name} {shortened(item)}; write * or {kind.lowest} to {kind.highest}{names},"
        f" in lists (1,2), ranges (1-5) and steps (*/2){kind.more}"
    )


def _days(day: str, weekday: str, *, is_spring: bool) -> tuple[int, ...]:
    """Find the matching days of each kind of month: 28 to 31 days, and a first day from Monday to Sunday."""
    both = is_spring or day.startswith("*") or weekday.startswith("*")
    if is_spring:
        day, weekday = ("*" if word == "?" else word for word in (day, weekday))
    kind = SPRING_WEEKDAY if is_spring else UNIX_WEEKDAY
    by_day = [_day_of_month(item) for item in day.split(",")]
    by_weekday = [_day_of_week(item, kind) for item in weekday.split(",")]
    months = [Month(first, length) for length in range(28, 32) for first in range(7)]
    chosen = [(_picked(by_day, month), _picked(by_weekday, month)) for month in months]
    return tuple(one & other if both else one | other for one, other in chosen)


def _picked(pickers: list[Picker], month: Month) -> int:
    bits = 0
    for picker in pickers:
        bits |= picker(month)
    return bits & (2 << month.length) - 2


def _day_of_month(item: str) -> Picker:
    if item == "LW":
        return lambda month: 1 << _workday(month.length, month)
    if match := LAST_DAY.fullmatch(item):
        back = int(match["back"] or 0)
        if match["back"] and not 1 <= back < DAY.highest:
            raise InvalidTimer(f"has the {DAY.name} {shortened(item)}; write L-1 to L-30")
        return lambda month: 1 << max(month.length - back, 0)
    if match := WORKDAY.fullmatch(item):
        day = _number(match["day"], DAY)
        return lambda month: 1 << _workday(day, month) if day <= month.length else 0
    bits = _item(item, DAY)
    return lambda _: bits


def _workday(day: int, month: Month) -> int:
    """Find the workday, Monday to Friday, that is nearest to a day and in the same month."""
    weekday = (month.first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == SUNDAY:
        return day + 1 if day < month.length else day - 2
    return day


def _day_of_week(item: str, kind: CronFieldKind) -> Picker:
    if match := WEEKDAY_IN_MONTH.fullmatch(item):
        day = _number(match["day"], kind) % 7
        if match["nth"] is None:
            return lambda month: 1 << _sevenths(day, month).bit_length() - 1
        nth = int(match["nth"])
        if not 1 <= nth <= 5:
            raise InvalidTimer(f"has the {kind.name} {shortened(item)}; write #1 to #5")
        return lambda month: 1 << _first(day, month) + 7 * (nth - 1)
    bits = _item(item, kind)
    days = {day % 7 for day in range(8) if bits >> day & 1}
    return lambda month: sum(_sevenths(day, month) for day in days)


def _first(weekday: int, month: Month) -> int:
    # In cron, 0 is Sunday; in Python's `calendar`, 0 is Monday.
    return (weekday - 1 - month.first) % 7 + 1


def _sevenths(weekday: int, month: Month) -> int:
    return EVERY_SEVENTH << _first(weekday, month) & (2 << month.length) - 2


# Most rules have the same days (every day, Monday to Friday), so they share a table of about 3 kB.
@lru_cache(maxsize=1_024)
def _kinds_of_year(days: tuple[int, ...], months: tuple[int, ...]) -> tuple[YearDays, ...]:
    return tuple(_year_days(days, months, first, leap) for first in range(7) for leap in (0, 1))


def _year_days(days: tuple[int, ...], months: tuple[int, ...], first: int, leap: int) -> YearDays:
    found = []
    for month, length in enumerate(MONTH_LENGTHS, start=1):
        days_in_it = length + (leap if month == 2 else 0)
        found.append(days[7 * (days_in_it - 28) + first] if month in months else 0)
        first = (first + days_in_it) % 7
    return YearDays(tuple(found), sum(bits.bit_count() for bits in found))
