"""Count days and months in the Gregorian calendar of any year, because Python's calendar ends at the year 9999."""

from datetime import datetime, timedelta
from functools import lru_cache

from shardclock_server.timers.zone import zone_of

YEAR_MAX = 999_999_999
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
CYCLE_YEARS = 400
CYCLE_DAYS = 146_097  # The calendar, with its days of the week, repeats after 400 years.
MARCH_1_YEAR_0 = -719_468  # The date as the number of days since 1970-01-01.
ANY_YEAR = 2000  # The year that determines the offset of a zone for a time without a date.


def days_in_month(year: int, month: int) -> int:
    """Return how many days a month has."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else MONTH_DAYS[month - 1]


def exists(year: int, month: int, day: int) -> bool:
    """Return whether the day exists in the calendar, within the years of FEEL."""
    return abs(year) <= YEAR_MAX and 1 <= month <= 12 and 1 <= day <= days_in_month(year, month)


def day_number(year: int, month: int, day: int) -> int:
    """Count the days from 1970-01-01 to a day; the count is negative for an earlier day.

    source:  the arithmetic uses years that begin in March, so that the leap day comes last
    """
    year -= month <= 2
    cycle, year_of_cycle = divmod(year, CYCLE_YEARS)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_cycle = year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year
    return cycle * CYCLE_DAYS + day_of_cycle + MARCH_1_YEAR_0


def day_of(number: int) -> tuple[int, int, int]:
    """Convert a day's number, as `day_number` returns it, to the year, month and day."""
    cycle, day_of_cycle = divmod(number - MARCH_1_YEAR_0, CYCLE_DAYS)
    leap_days = day_of_cycle // 1_460 - day_of_cycle // 36_524 + day_of_cycle // 146_096
    year_of_cycle = (day_of_cycle - leap_days) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    month = (month_from_march + 2) % 12 + 1
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    return cycle * CYCLE_YEARS + year_of_cycle + (month <= 2), month, day


def months_on(year: int, month: int, day: int, months: int) -> tuple[int, int, int]:
    """Add months to a date; a day that the new month lacks becomes the month's last day."""
    year, month = divmod(year * 12 + month - 1 + months, 12)
    return year, month + 1, min(day, days_in_month(year, month + 1))


def local_offsets_s(zone: str, day: int, second: int) -> tuple[int, int]:
    """Return a zone's two possible offsets from UTC at a local time, before and after a change of the zone's clock.

    shape:   two equal offsets if the clock does not change; the first offset is larger if the clock shows the local
             time twice, and smaller if the clock skips the local time
    """
    return _local_offsets_s(zone, _within_python(day), second)


def utc_offset_s(zone: str, day: int, second: int) -> int:
    """Return a zone's offset at a moment of UTC, given as the day's number and the second of the day."""
    return _utc_offset_s(zone, _within_python(day), second)


def standard_offset_s(zone: str) -> int:
    """Return a zone's offset without summer time, for a time that has no date."""
    moment = datetime(ANY_YEAR, 1, 1, tzinfo=zone_of(zone))
    return _seconds((moment.utcoffset() or timedelta(0)) - (moment.dst() or timedelta(0)))


@lru_cache(maxsize=1_024)
def _local_offsets_s(zone: str, day: int, second: int) -> tuple[int, int]:
    local = (datetime(1970, 1, 1) + timedelta(days=day, seconds=second)).replace(tzinfo=zone_of(zone))  # noqa: DTZ001 see above
    before, after = (local.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1))
    return _seconds(before), _seconds(after)


@lru_cache(maxsize=1_024)
def _utc_offset_s(zone: str, day: int, second: int) -> int:
    clock = zone_of(zone)
    moment = (datetime(1970, 1, 1) + timedelta(days=day, seconds=second)).replace(tzinfo=clock)  # noqa: DTZ001 see above
    return _seconds(clock.fromutc(moment).utcoffset() or timedelta(0))


def _within_python(day: int) -> int:
    """Move a day by multiples of 400 years, after which the calendar repeats, into the years that Python supports."""
    first, last = -719_000, 2_932_000  # Days in the first and the last year that Python supports.
    if day < first:
        return day + CYCLE_DAYS * -((day - first) // CYCLE_DAYS)
    return day - CYCLE_DAYS * -((last - day) // CYCLE_DAYS) if day > last else day


def _seconds(length: timedelta) -> int:
    return length.days * 86_400 + length.seconds
