"""Find and count the matches of a cron rule on a calendar without clock changes.

Local times are whole seconds since 0001-01-01T00:00:00; days are proleptic Gregorian ordinals.
"""

from bisect import bisect_left
from calendar import isleap
from datetime import date

from shardclock_server.timers.cron_fields import CronFields, YearDays
from shardclock_server.timers.offsets import DAY, END

NEVER = END + 2 * DAY
YEAR_MAX = date.max.year


def local_match(fields: CronFields, lowest: int) -> int:
    """Find the first local match at or after the second `lowest`, or return NEVER."""
    day, time = divmod(max(lowest, 0), DAY)
    found = _next_day(fields.years, day + 1)
    passed = _times_before(fields, time) if found == day + 1 else 0
    if passed == fields.times_per_day:
        found, passed = _next_day(fields.years, day + 2), 0
    return NEVER if found is None else (found - 1) * DAY + _time_at(fields, passed)


def _next_day(years: tuple[YearDays, ...], ordinal: int) -> int | None:
    """Find the first matching day at or after a day; both are proleptic Gregorian ordinals."""
    if ordinal > date.max.toordinal():
        return None
    day = date.fromordinal(ordinal)
    # The loop is short: even a rule such as Friday, 29 February matches within 40 years. The caller has checked that
    # there are matching days.
    for year in range(day.year, YEAR_MAX + 1):
        days = _days_of(years, year)
        if days.total:
            start = day.month if year == day.year else 1
            for month in range(start, 13):
                bits = days.months[month - 1]
                if year == day.year and month == start:
                    bits &= -1 << day.day
                if bits:
                    return date(year, month, (bits & -bits).bit_length() - 1).toordinal()
    return None


def _time_at(fields: CronFields, index: int) -> int:
    """Return the matching second of a day at the position `index`; positions start at 0."""
    rest, second = divmod(index, len(fields.seconds))
    hour, minute = divmod(rest, len(fields.minutes))
    return fields.hours[hour] * 3600 + fields.minutes[minute] * 60 + fields.seconds[second]


def _times_before(fields: CronFields, time: int) -> int:
    """Count the matching seconds of a day before the second `time`."""
    (hour, rest), seconds = divmod(time, 3600), fields.seconds
    minute, second = divmod(rest, 60)
    hours = bisect_left(fields.hours, hour)
    minutes = hours * len(fields.minutes)
    if hours == len(fields.hours) or fields.hours[hours] > hour:
        return minutes * len(seconds)
    of_hour = bisect_left(fields.minutes, minute)
    count = (minutes + of_hour) * len(seconds)
    if of_hour == len(fields.minutes) or fields.minutes[of_hour] > minute:
        return count
    return count + bisect_left(seconds, second)


def count_local(fields: CronFields, low: int, high: int) -> int:
    """Count the local matches in [low, high)."""
    (low_day, low_time), (high_day, high_time) = divmod(low, DAY), divmod(high, DAY)
    count = _count_days(fields.years, low_day + 1, high_day) * fields.times_per_day
    if low_time:
        count -= _count_days(fields.years, low_day + 1, low_day + 1) and _times_before(fields, low_time)
    if high_time:
        count += _count_days(fields.years, high_day + 1, high_day + 1) and _times_before(fields, high_time)
    return count


def _count_days(years: tuple[YearDays, ...], first: int, last: int) -> int:
    """Count the matching days between two ordinals, including both."""
    if first > last:
        return 0
    low, high = date.fromordinal(first), date.fromordinal(last)
    low_days, high_days = _days_of(years, low.year), _days_of(years, high.year)
    between = sum(_days_of(years, year).total for year in range(low.year, high.year))
    return between + _days_before(high_days, high.month, high.day + 1) - _days_before(low_days, low.month, low.day)


def _days_before(days: YearDays, month: int, day: int) -> int:
    passed = sum(bits.bit_count() for bits in days.months[: month - 1])
    return passed + (days.months[month - 1] & (1 << day) - 1).bit_count()


def _days_of(years: tuple[YearDays, ...], year: int) -> YearDays:
    return years[2 * date(year, 1, 1).weekday() + isleap(year)]
