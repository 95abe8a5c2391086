"""Test dates, times and durations of the calendar, including years that Python does not support."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardclock_server.feel import compile_expression
from shardclock_server.feel.calendar import CYCLE_DAYS, day_number, day_of, exists
from shardclock_server.feel.temporal import (
    DAY_NS,
    SECOND_NS,
    Date,
    DateTime,
    Elapsed,
    Months,
    Time,
    at_local,
    from_python,
)
from shardclock_server.feel.temporal_text import ELAPSED_NS_MAX, MONTHS_MAX, parse_temporal, temporal_text
from tests.support.feel import json_of, value_of

ZONES = ["Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]
EPOCH = date(1970, 1, 1).toordinal()

LOCAL_TIMES = st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 - they get a zone

dates = st.integers(-360_000_000_000, 360_000_000_000).map(Date.numbered)
times_ns = st.integers(0, 86_400 * SECOND_NS - 1)
zones = st.none() | st.integers(-64_800, 64_800) | st.sampled_from(ZONES)
TEMPORALS = (
    dates
    | st.builds(Time, times_ns, zones)
    | st.builds(lambda date, ns, zone: at_local(date.number * DAY_NS + ns, zone), dates, times_ns, zones)
    | st.builds(Months, st.integers(-MONTHS_MAX, MONTHS_MAX))
    | st.builds(Elapsed, st.integers(-ELAPSED_NS_MAX, ELAPSED_NS_MAX))
)


@given(st.dates())
def test_days_are_counted_as_python_counts_them(day: date) -> None:
    number = day_number(day.year, day.month, day.day)

    assert number == day.toordinal() - EPOCH
    assert day_of(number) == (day.year, day.month, day.day)


@given(st.integers(1, 9999), st.integers(0, 13), st.integers(0, 32))
@example(2000, 2, 29)
@example(1900, 2, 29)
def test_a_day_exists_if_it_exists_in_python(year: int, month: int, day: int) -> None:
    try:
        known = bool(date(year, month, day))
    except ValueError:
        known = False

    assert exists(year, month, day) is known


@given(st.integers(-(10**12), 10**12))
def test_the_calendar_continues_in_both_directions(number: int) -> None:
    year, month, day = day_of(number)

    assert day_number(year, month, day) == number
    assert day_of(number + CYCLE_DAYS) == (year + 400, month, day)
    assert exists(year, month, day) == (abs(year) <= 999_999_999)


@given(TEMPORALS)
def test_a_written_value_reads_back_to_the_same_value(value: Date | Time | DateTime | Months | Elapsed) -> None:
    assert parse_temporal(temporal_text(value)) == value


@given(LOCAL_TIMES, st.sampled_from(ZONES), st.integers(-(10**9), 10**9))
def test_elapsed_time_in_a_zone_is_added_as_python_adds_it(local: datetime, zone: str, seconds: int) -> None:
    moment = (local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) + timedelta(seconds=seconds)).astimezone(
        ZoneInfo(zone)
    )
    start = from_python(local.replace(tzinfo=ZoneInfo(zone)))

    assert start.plus(seconds * SECOND_NS) == from_python(moment)


@pytest.mark.parametrize(
    "text",
    [
        "", "2031-02-29", "2031-13-01", "2031-1-1", "31-01-31", "02031-01-31", "1999999999-01-01", "25:00:00",
        "24:00:01", "08:60:00", "08:00:60",
        "8:00:00", "08:00:00+19:00", "08:00:00+1:00", "08:00:00@Mars/Olympus", "08:00:00Z@UTC",
        "08:00:00@localtime", "2031-01-31T", "2031-01-31 08:00:00", "P", "PT", "P1", "P1Y1D", "P1W", "P1DT", "PT1.5H",
        "1D", "P-1D", "x" * 200, "T" + "]" * 2_000, "PT" + "9" * 30 + "S",
    ],
)  # fmt: skip
def test_a_text_without_a_date_time_or_duration_is_null(text: str) -> None:
    assert parse_temporal(text) is None
    for function in ("date", "time", "date and time", "duration"):
        assert value_of(f'{function}("{text}")') is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"2031-01-31" + @"P1M"', "2031-02-28"),
        ('@"2028-02-29" + @"P1Y"', "2029-02-28"),
        ('@"2031-01-31" - @"P2M"', "2030-11-30"),
        ('@"2031-01-31" + @"PT36H"', "2031-02-01"),
        ('@"2031-01-31" - @"PT1S"', "2031-01-30"),
        ('@"P1D" + @"2031-01-31"', "2031-02-01"),
        ('@"23:00:00" + @"PT2H"', "01:00:00"),
        ('@"23:00:00" + @"P1Y"', None),
        ('@"2031-03-29T12:00:00@Europe/Paris" + @"P1D"', "2031-03-30T13:00:00@Europe/Paris"),
        ('@"2031-02-28T12:00:00@Europe/Paris" + @"P2M"', "2031-04-28T12:00:00@Europe/Paris"),
        ('@"2031-01-31T24:00:00"', "2031-02-01T00:00:00"),
        ('@"2031-02-01" - @"2031-01-31"', "P1D"),
        ('@"2031-01-31T09:00:00@Europe/Paris" - @"2031-01-31T08:00:00Z"', "PT0S"),
        ('@"2031-01-31T09:00:00" - @"2031-01-31T08:00:00Z"', None),
        ('@"09:00:00+01:00" - @"08:00:00Z"', "PT0S"),
        ('@"09:00:00" - @"10:00:00"', "-PT1H"),
        ('@"P1D" * 1.5', "P1DT12H"),
        ('@"P1Y" / 5', "P2M"),
        ('@"P1D" / @"PT6H"', 4),
        ('@"P1Y" / @"P1M"', 12),
        ('@"P1D" / 0', None),
        ('@"P1D" / @"P1M"', None),
        ('-@"P1Y2M"', "-P1Y2M"),
        ('@"999999999-12-31" + @"P1D"', None),
        ('@"-0001-12-31" + @"P1D"', "0000-01-01"),
        ('@"PT0.123456789S" + @"PT0.000000001S"', "PT0.12345679S"),
        ('date and time("2031-01-31") = date and time("2031-01-31T00:00:00")', True),
        ('date and time(@"2031-01-31", @"08:00:00@Europe/Paris")', "2031-01-31T08:00:00@Europe/Paris"),
        ('date and time(@"2031-01-31T08:00:00", "Europe/Paris")', None),
        ('date and time(@"2031-01-31T08:00:00@Europe/Paris", "Z")', "2031-01-31T07:00:00Z"),
        ('date and time(@"2031-01-31T08:00:00Z", "+05:30")', "2031-01-31T13:30:00+05:30"),
        ('date and time(@"2031-01-31T08:00:00Z", "+19:00")', None),
        ('date and time(@"2031-01-31T08:00:00Z", "")', None),
        ('date and time("2018-04-29T09:30:00+02:00[Europe/Berlin]")', "2018-04-29T09:30:00@Europe/Berlin"),
        ('date and time("2018-04-29T09:30:00[Europe/Berlin]")', "2018-04-29T09:30:00@Europe/Berlin"),
        ('date and time("2018-10-28T02:30:00+02:00[Europe/Berlin]")', "2018-10-28T02:30:00@Europe/Berlin"),
        ('date and time("2018-10-28T02:30:00+01:00[Europe/Berlin]")', "2018-10-28T02:30:00+01:00[Europe/Berlin]"),
        ('date and time("2018-04-29T07:30:00Z[Europe/Berlin]")', None),
        ('date and time("2018-04-29T09:30:00+02:00[Mars/Olympus]")', None),
        ('date and time("2018-04-29T09:30:00@Europe/Berlin[Europe/Berlin]")', None),
        ('date and time("2018-04-29[Europe/Berlin]")', None),
        ('time("T23:59:00")', "23:59:00"),
        ('time("T23:59:00Z")', "23:59:00Z"),
        ('time("TT23:59:00")', None),
        ('time("2031-01-31T23:59:00")', None),
        ('time(@"2031-01-31T08:30:00Z")', "08:30:00Z"),
        ("time(8, 30, 1.5)", "08:30:01.5"),
        ("time(24, 0, 0)", None),
        ("date(2031, 2, 29)", None),
        ("date(2031, 1.5, 1)", None),
        ('cycle(3, duration("PT1H"))', "R3/PT1H"),
        ('cycle(6 / 2, @"P1Y2M")', "R3/P1Y2M"),
        ('cycle(@"P7D")', "R/P7D"),
        ('cycle(interval: @"P7D", repetitions: 2)', "R2/P7D"),
        ('cycle(1.5, @"P7D")', None),
        ('cycle(-1, @"P7D")', None),
        ('cycle(null, @"P7D")', None),
        ("cycle(3, 5)", None),
        ('years and months duration(@"2031-01-31", @"2031-02-28")', "P0M"),
        ('years and months duration(@"2031-02-28", @"2031-01-31")', "P0M"),
    ],
)
def test_dates_are_moved_and_compared_by_dmns_rules(text: str, expected: object) -> None:
    assert json_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"2031-01-31".weekday', 5),
        ('@"2031-01-31T08:30:15.5Z".second', 15),
        ('@"2031-07-31T08:30:00@Europe/Paris".time offset', "PT2H"),
        ('@"2031-07-31T08:30:00@Europe/Paris".timezone', "Europe/Paris"),
        ('@"08:30:00@Europe/Paris".time offset', "PT1H"),
        ('@"08:30:00".time offset', None),
        ('@"-P14M".years', -1),
        ('@"-P14M".months', -2),
        ('@"-PT36H".days', -1),
        ('@"-PT36H".hours', -12),
        ('@"P1D".months', None),
        ('@"2031-01-31".hour', None),
        ('[@"2031-01-31", @"2030-12-01"].year', [2031, 2030]),
        ("[1..5).end included", False),
        ("(> 5).end", None),
    ],
)
def test_parts_of_dates_durations_and_ranges_have_names(text: str, expected: object) -> None:
    assert json_of(text) == expected


@pytest.mark.parametrize(
    ("moment", "now", "today"),
    [
        (datetime(2031, 1, 31, 8, tzinfo=UTC), "2031-01-31T08:00:00Z", "2031-01-31"),
        (
            datetime(2031, 1, 31, 23, 30, 0, 5, tzinfo=ZoneInfo("Europe/Paris")),
            "2031-01-31T23:30:00.000005@Europe/Paris",
            "2031-01-31",
        ),
    ],
)
def test_now_is_the_moment_of_the_evaluation(moment: datetime, now: str, today: str) -> None:
    expression = compile_expression("[string(now()), string(today()), string(now())]")

    assert expression.evaluate({}, now=moment) == [now, today, now]
