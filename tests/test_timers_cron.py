"""A cron rule fires when its text says, on its zone's wall clock, and counts what it missed without stepping."""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from timers.cron import Cron, looks_like_cron, parse_cron
from timers.moment import LATEST_DUE_DATE
from timers.occurrence import Later, Occurrence
from timers.refusal import InvalidTimer, shortened
from timers.stretches import Change, clock_changes
from timers.zone import UTC_ZONE, to_local, zone_of

BERLIN = zone_of("Europe/Berlin")
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

# Gaps and overlaps of an hour, of half an hour, at midnight, of a whole day, at Ramadan, in winter (Dublin), none.
ZONES = [
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"),
    *("Africa/Casablanca", "Europe/Dublin", "America/Juneau", "Asia/Kolkata", "UTC"),
]
zones = st.sampled_from(ZONES).map(zone_of)


def moment(text: str) -> datetime:
    """Read a moment, in UTC if it doesn't say."""
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def occurrences(cron: Cron, created: datetime) -> Iterator[Occurrence]:
    """Step through a rule."""
    occurrence = cron.first(created)
    while occurrence is not None:
        yield occurrence
        occurrence = cron.next(occurrence)


def local_times(text: str, zone: str, created: str, count: int) -> list[str]:
    """Read the next due dates off the wall clock, with their offsets."""
    cron = parse_cron(text, zone_of(zone))
    found = islice(occurrences(cron, moment(created)), count)
    return [occurrence.due_date.astimezone(cron.zone).isoformat(timespec="minutes") for occurrence in found]


def days(text: str, created: str, count: int) -> list[str]:
    """Read the next due dates as days."""
    return [found[:10] for found in local_times(text, "UTC", created, count)]


# What the text means.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15 * * * * *", ["10:00:15", "10:01:15"]),
        ("*/20 * * * * *", ["10:00:20", "10:00:40"]),
        ("0 5/25 * * * *", ["10:05:00", "10:30:00", "10:55:00", "11:05:00"]),
        ("0 0 8-12/2 * * *", ["12:00:00", "08:00:00"]),
        ("0 0,30 9-10 * * *", ["10:30:00", "09:00:00", "09:30:00"]),
        ("59 59 23 * * *", ["23:59:59", "23:59:59"]),
        ("*/90 7 * * * *", ["10:07:00", "11:07:00"]),
        ("30 * * * *", ["10:30:00", "11:30:00"]),
        ("@hourly", ["11:00:00", "12:00:00"]),
        ("@midnight", ["00:00:00", "00:00:00"]),
    ],
)
def test_lists_ranges_and_steps_choose_times_of_day(text: str, expected: list[str]) -> None:
    cron = parse_cron(text, UTC_ZONE)

    found = islice(occurrences(cron, moment("2026-01-01T10:00:00")), len(expected))

    assert [occurrence.due_date.time().isoformat() for occurrence in found] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 0 L * ?", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("0 0 0 L-30 * ?", ["2026-03-01", "2026-05-01", "2026-07-01"]),  # only a month of 31 days has one
        ("0 0 0 LW * ?", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("0 0 0 15W * ?", ["2026-01-15", "2026-02-16", "2026-03-16"]),
        ("0 0 0 1W 8 ?", ["2026-08-03", "2027-08-02", "2028-08-01"]),  # a Saturday, a Sunday, a Tuesday
        ("0 0 0 31W * ?", ["2026-01-30", "2026-03-31", "2026-05-29"]),  # 31 May is a Sunday, and 1 June is not in May
        ("0 0 0 1,L * ?", ["2026-01-31", "2026-02-01", "2026-02-28"]),
        ("0 0 0 ? * FRIL", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 0 ? * 0#1,7#2", ["2026-01-04", "2026-01-11", "2026-02-01"]),
        ("0 0 0 ? * 1#5", ["2026-03-30", "2026-06-29"]),
        ("0 0 0 ? * FRI-SUN", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
        ("0 0 0 ? * SUN-MON", ["2026-01-04", "2026-01-05", "2026-01-11"]),
        ("0 0 0 ? * 7-1", ["2026-01-04", "2026-01-05", "2026-01-11"]),
        ("0 0 0 1-7 * MON", ["2026-01-05", "2026-02-02"]),
        ("0 0 0 29 FEB ?", ["2028-02-29", "2032-02-29"]),
        ("0 0 0 29 feb fri", ["2036-02-29", "2064-02-29", "2092-02-29", "2104-02-29"]),
        ("0 0 0 ? 1 ?", ["2026-01-02", "2026-01-03"]),
        ("@yearly", ["2027-01-01", "2028-01-01"]),
        ("@Annually", ["2027-01-01", "2028-01-01"]),
        ("@monthly", ["2026-02-01", "2026-03-01"]),
        ("@weekly", ["2026-01-04", "2026-01-11"]),
        ("@daily", ["2026-01-02", "2026-01-03"]),
    ],
)
def test_the_day_fields_choose_days(text: str, expected: list[str]) -> None:
    assert days(text, "2026-01-01T00:00:00", len(expected)) == expected


def test_spring_wants_both_day_fields_to_match_and_unix_either() -> None:
    friday_13th = ["2026-02-13", "2026-03-13", "2026-11-13"]
    fridays_and_13ths = ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]

    assert days("0 0 0 13 * FRI", "2026-01-01T00:00:00", 3) == friday_13th
    assert days("0 0 13 * FRI", "2026-01-01T00:00:00", 4) == fridays_and_13ths


def test_a_unix_day_field_that_begins_with_a_star_must_match_too() -> None:
    even = ["2026-01-09", "2026-01-23", "2026-02-13"]

    assert days("0 0 */2 * FRI", "2026-01-02T00:00:00", 3) == even


def test_steps_over_the_week_count_from_monday_in_spring_and_from_sunday_in_unix() -> None:
    # From Sunday, 4 January 2026: Sunday, Monday and Thursday; Sunday, Wednesday and Saturday.
    assert days("0 0 0 ? * */3", "2026-01-03T00:00:00", 3) == ["2026-01-04", "2026-01-05", "2026-01-08"]
    assert days("0 0 * * */3", "2026-01-03T00:00:00", 3) == ["2026-01-04", "2026-01-07", "2026-01-10"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  0 0\t12  ? jan-Mar  mon#2 \n", "0 0 12 ? JAN-MAR MON#2"),
        ("*/5 * * * *", "*/5 * * * *"),
        ("0 0 0 lw * *", "0 0 0 LW * *"),
        (" @Daily", "@daily"),
    ],
)
def test_the_canonical_text_has_single_spaces_and_upper_case_names(text: str, canonical: str) -> None:
    cron = parse_cron(text, BERLIN)

    assert str(cron) == canonical
    assert parse_cron(canonical, BERLIN) == cron


@pytest.mark.parametrize("text", ["R3/PT1H", "r/PT1H", " R/P1D", "P1D", "pt5m"])
def test_what_begins_like_iso_is_not_taken_for_cron(text: str) -> None:
    assert not looks_like_cron(text)


@pytest.mark.parametrize("text", ["* * * * *", " 0 0 0 ? * MON", "@daily", "", "every 5 minutes", "5 minutes"])
def test_anything_else_is_taken_for_cron(text: str) -> None:
    assert looks_like_cron(text)


# What is refused.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 0 fields; write six (second minute"),
        ("*", "has 1 field; write six"),
        ("* * * *", "has 4 fields; write six"),
        ("0 0 0 1 1 ? 2026", "has seven fields, the seventh being Quartz's year; write six"),
        ("* * * * * * * *", "has 8 fields"),
        ("@reboot", "is not a nickname that we know; write one of @yearly"),
        ("@daily 5", "is not a nickname"),
        ("60 * * * * *", "has the second '60'; write 0 to 59"),
        ("* 0-60 * * * *", "has the minute '60'; write 0 to 59"),
        ("* * 24 * * *", "has the hour '24'; write 0 to 23"),
        ("* * * 0 * *", "has the day-of-month '0'; write 1 to 31"),
        ("* * * 32W * *", "has the day-of-month '32'; write 1 to 31"),
        ("* * * * 13 *", "has the month '13'; write 1 to 12"),
        ("* * * * * 8", "has the day-of-week '8'; write 0 to 7"),
        ("* * * * * 8L", "has the day-of-week '8'"),
        ("* * * * * 5#6", "has the day-of-week '5#6'; write #1 to #5"),
        ("* * * * * 5#0", "has the day-of-week '5#0'; write #1 to #5"),
        ("* * * L-0 * *", "has the day-of-month 'L-0'; write L-1 to L-30"),
        ("* * * L-31 * *", "has the day-of-month 'L-31'; write L-1 to L-30"),
        ("* 5-1 * * * *", "has the minute '5-1', which runs backwards"),
        ("* * * * * FRI-MON", "has the day-of-week 'FRI-MON', which runs backwards"),
        ("* * * * * 5-0", "has the day-of-week '5-0', which runs backwards"),
        ("* * * * NOV-FEB *", "has the month 'NOV-FEB', which runs backwards"),
        ("* * * * * SUN-SUN", "has the day-of-week 'SUN-SUN'; write SUN for Sundays, or * for every day"),
        ("* * * * * 7-7", "has the day-of-week '7-7'"),
        ("*/0 * * * * *", "has the second '*/0', whose step is zero"),
        ("1-5/0 * * * * *", "has the second '1-5/0', whose step is zero"),
        ("* 1,,2 * * * *", "has the minute ''; write *"),
        ("* 1, * * * *", "has the minute ''"),
        ("* -1 * * * *", "has the minute '-1'"),
        ("* +1 * * * *", "has the minute '+1'"),
        ("* 1/-1 * * * *", "has the minute '1/-1'"),
        ("* 1/ * * * *", "has the minute '1/'"),
        ("* 1-2-3 * * * *", "has the minute '1-2-3'"),
        ("* 1/2/3 * * * *", "has the minute '1/2/3'"),
        ("* ** * * * *", "has the minute '**'"),
        ("* 1.5 * * * *", "has the minute '1.5'"),
        ("* JAN * * * *", "has the minute 'JAN'"),
        ("* * * * MON *", "has the month 'MON'"),
        ("* * * * JANUARY *", "has the month 'JANUARY'"),
        ("* * * * * JAN", "has the day-of-week 'JAN'"),
        ("* * * * * SUN*", "has the day-of-week 'SUN*'"),
        ("* * * * * L", "has the day-of-week 'L'"),
        ("* * * * * L5", "has the day-of-week 'L5'"),
        ("* * * W * *", "has the day-of-month 'W'"),
        ("* * * 1-5W * *", "has the day-of-month '1-5W'"),
        ("* * * LW-1 * *", "has the day-of-month 'LW-1'"),
        ("* * L * * *", "has the hour 'L'"),
        ("* ? * * * *", "has the minute '?', which only stands alone in a day field of six-field cron"),
        ("* * * ?,1 * *", "has the day-of-month '?', which only stands alone"),
        ("* * ? * *", "has the day-of-month '?', which only stands alone"),
        ("* * * * \u0663 *", "holds a character that cron has no use for"),
        ("* * * * \u00a0* *", "holds a character that cron has no use for"),
        ("* * * * *\x00", "holds a character that cron has no use for"),
        ("* * *\n* * *", "holds a character that cron has no use for"),
        ("* * * * *\x1c*", "holds a character that cron has no use for"),
        ("\ud800", "holds a character that cron has no use for"),
        ("* * * * * " + "1," * 95 + "1", "is longer than 200 characters"),
    ],
    ids=shortened,
)
def test_what_is_not_cron_is_refused_by_its_value_its_rule_and_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(InvalidTimer, match=re.escape(f"{shortened(text)} {reason}")):
        parse_cron(text, UTC_ZONE)


# Where a clock changes.


def test_a_time_that_the_clock_skips_is_left_out() -> None:
    expected = ["2026-03-28T02:30+01:00", "2026-03-30T02:30+02:00"]

    assert local_times("0 30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 2) == expected
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 2) == expected


def test_a_day_that_the_clock_skips_is_left_out() -> None:
    expected = ["2011-12-29T12:00-10:00", "2011-12-31T12:00+14:00"]

    assert local_times("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00", 2) == expected


def test_a_time_that_comes_twice_fires_the_first_time_only() -> None:
    expected = ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]

    assert local_times("0 30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", 2) == expected
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", 2) == expected


@pytest.mark.parametrize("text", ["0 30 * * * *", "30 * * * *", "30 */2 * * *", "*/30 2 * * *"])
def test_a_rule_whose_minute_or_hour_begins_with_a_star_fires_both_times(text: str) -> None:
    found = local_times(text, "Europe/Berlin", "2026-10-25T00:00+02:00", 8)

    assert {"2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"} <= set(found)


def test_a_schedule_made_the_second_time_round_waits_for_what_is_new() -> None:
    second_time_round = "2026-10-25T02:10+01:00"

    assert local_times("20,40 2,3 * * *", "Europe/Berlin", second_time_round, 1) == ["2026-10-25T03:20+01:00"]
    assert local_times("20,40 * * * *", "Europe/Berlin", second_time_round, 1) == ["2026-10-25T02:20+01:00"]


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        # From 00:01 on 1 January 1944 back to 23:01 of the year before.
        (
            "0 */30 23 31 12 FRI",
            "America/Phoenix",
            ["1943-12-31T23:30-06:00", "1943-12-31T23:30-07:00", "1948-12-31T23:00-07:00"],
        ),
        # From 00:00 on 1 January 1953 back to 16:00, which UTC had in another year.
        (
            "0 */45 20 31 12 WED",
            "America/Inuvik",
            ["1952-12-31T20:45+00:00", "1952-12-31T20:00-08:00", "1952-12-31T20:45-08:00", "1958-12-31T20:00-08:00"],
        ),
    ],
)
def test_a_new_years_eve_that_comes_twice_fires_both_times(text: str, zone: str, expected: list[str]) -> None:
    just_before = (moment(expected[0]) - MINUTE).isoformat()

    assert local_times(text, zone, just_before, len(expected)) == expected


# How occurrences are numbered and counted.


def test_each_occurrence_is_its_own_anchor_and_gets_the_next_number() -> None:
    cron = parse_cron("@daily", BERLIN)

    first = cron.first(moment("2026-01-01T12:00Z"), number=7)

    assert first == Occurrence(7, midnight := moment("2026-01-02T00:00+01:00"), midnight, 7)
    assert cron.next(first) == Occurrence(8, midnight + DAY, midnight + DAY, 8)
    assert cron.repetitions == -1


def test_a_match_at_the_moment_of_creation_has_passed() -> None:
    cron = parse_cron("@daily", UTC_ZONE)
    midnight = moment("2026-01-02T00:00")

    assert [found.due_date for found in (cron.first(midnight - MICROSECOND), cron.first(midnight)) if found] == [
        midnight,
        midnight + DAY,
    ]


def test_the_next_is_counted_from_the_grid_when_a_user_moved_the_due_date() -> None:
    cron = parse_cron("@daily", UTC_ZONE)
    anchor = moment("2026-01-02T00:00")
    moved = Occurrence(3, due_date=anchor + 5 * DAY, anchor=anchor, anchor_number=3)

    assert cron.next(moved) == Occurrence(4, anchor + DAY, anchor + DAY, 4)
    assert cron.after(moved, anchor + 3 * DAY / 2) == Later(1, Occurrence(5, anchor + 2 * DAY, anchor + 2 * DAY, 5))


def test_nothing_is_missed_before_the_occurrence_is_due() -> None:
    cron = parse_cron("@daily", UTC_ZONE)
    current = cron.first(moment("2026-01-01T12:00"))
    assert current is not None

    assert cron.after(current, moment("2025-01-01T00:00")) == Later(0, cron.next(current))
    assert cron.after(current, current.due_date) == Later(0, cron.next(current))


@pytest.mark.parametrize(
    ("text", "zone", "until", "missed"),
    [
        ("* * * * * *", "UTC", "2026-01-02T00:00:00Z", 86_400),
        ("* * * * * *", "Europe/Berlin", "2126-01-01T00:00:00Z", 36_524 * 86_400),
        ("0 0 0 * * *", "UTC", "9999-12-31T23:59:59Z", 2_912_442),
        ("0 0 0 29 2 *", "Europe/Berlin", "9999-12-31T00:00:00Z", 1_933),
        # The hour that Berlin skips in spring comes twice in autumn.
        ("0 30 * * * *", "Europe/Berlin", "9999-12-31T00:00:00Z", 2_912_442 * 24),
        ("0 30 2 * * *", "Europe/Berlin", "9999-12-31T00:00:00Z", 2_912_442 - (9_999 - 2_026 + 1)),
    ],
)
def test_even_millions_of_missed_matches_are_counted_by_arithmetic(
    text: str, zone: str, until: str, missed: int
) -> None:
    cron = parse_cron(text, zone_of(zone))
    anchor = moment("2026-01-01T00:00:00Z")

    assert cron.after(Occurrence(1, anchor, anchor, 1), moment(until)).missed == missed


def test_counting_over_centuries_equals_counting_piece_by_piece() -> None:
    cron = parse_cron("0 30 2 * * *", BERLIN)
    moments = [datetime(year, 1, 1, tzinfo=UTC) for year in (1, 1850, 1950, 2050, 2300, 2750, 9999)]

    def missed(start: datetime, until: datetime) -> int:
        return cron.after(Occurrence(1, start, start, 1), until).missed

    assert missed(moments[0], moments[-1]) == sum(map(missed, moments, moments[1:]))


def test_nothing_is_counted_beyond_the_last_day_of_the_wall_clock() -> None:
    cron = parse_cron("* * * * * *", zone_of("Pacific/Kiritimati"))
    last = moment("9999-12-31T23:59:59+14:00")
    start = LATEST_DUE_DATE.replace(microsecond=0) - 2 * timedelta(days=146_097)

    later = cron.after(Occurrence(1, start, start, 1), LATEST_DUE_DATE)

    assert later == Later((last - start) // timedelta(seconds=1), None)


def test_the_first_clock_that_ever_changed_is_known() -> None:
    found = list(clock_changes(zone_of("Asia/Manila"), FIRST_MOMENT, moment("1890-01-01T00:00")))

    assert [(change.at.year, (change.after - change.before) / DAY) for change in found] == [(1844, 1)]


# Where it ends.


@pytest.mark.parametrize(
    "text", ["0 0 0 30 2 ?", "0 0 0 31 4,6,9,11 ?", "0 0 0 31W 2 ?", "0 0 0 8 * FRI#1", "0 0 30 2 *"]
)
def test_a_rule_that_never_matches_has_no_first_occurrence(text: str) -> None:
    cron = parse_cron(text, BERLIN)

    assert cron.first(FIRST_MOMENT) is None
    assert cron.after(Occurrence(1, FIRST_MOMENT, FIRST_MOMENT, 1), LATEST_DUE_DATE) == Later(0, None)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"])
@pytest.mark.parametrize("text", ["* * * * * *", "0 0 * * *", "0 30 2 31 12 ?", "0 0 0 29 2 MON"])
def test_the_years_1_and_9999_are_the_ends_of_the_calendar(text: str, zone: str) -> None:
    cron = parse_cron(text, zone_of(zone))
    first = cron.first(FIRST_MOMENT)
    assert first is not None
    assert first.due_date.year <= 29

    later = cron.after(first, LATEST_DUE_DATE)

    assert later.next is None
    assert later.missed > 100
    assert cron.first(LATEST_DUE_DATE) is None


# Against other ways of finding the same.

WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


def numbers(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """Write a field of numbers, in each way there is."""
    number = st.integers(low, high)
    step = st.integers(1, 9)
    some = st.lists(number, min_size=2, max_size=2, unique=True).map(sorted)
    item = st.one_of(
        number.map(str),
        some.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.builds(lambda ends, step: f"{ends[0]}-{ends[1]}/{step}", some, step),
        st.builds(lambda first, step: f"{first}/{step}", number, step),
        st.sampled_from(names or [str(high)]),
    )
    star = st.just("*") | step.map(lambda step: f"*/{step}")
    return star | st.lists(item, min_size=1, max_size=3).map(",".join)


unix_days = numbers(1, 31) | st.sampled_from(["L", "LW", "1,L", "28-31", "*"])
unix_weekdays = numbers(0, 7, WEEKDAYS) | st.sampled_from(["5L", "0L", "7#1", "MON#5", "1,5L", "*"])
unix_texts = st.tuples(numbers(0, 59), numbers(0, 23), unix_days, numbers(1, 12, MONTHS), unix_weekdays).map(" ".join)
spring_days = unix_days | st.sampled_from(["?", "L-3", "15W", "1W", "31W"])
spring_weekdays = unix_weekdays | st.just("?")
spring_texts = st.tuples(
    *(numbers(0, 59), numbers(0, 59), numbers(0, 23), spring_days, numbers(1, 12, MONTHS), spring_weekdays)
).map(" ".join)


def cronsim(text: str, start: datetime) -> Iterator[datetime]:
    """Step through a rule with cronsim, which refuses 30 February even where a day-of-week would do."""
    try:
        yield from CronSim(text, start)
    except CronSimError:
        reject()


@settings(deadline=None)  # cronsim steps through days one by one
@given(text=unix_texts, zone=zones, hours=st.integers(0, 1_000_000), second=st.integers(0, 3599))
def test_unix_cron_fires_when_cronsim_fires(text: str, zone: ZoneInfo, hours: int, second: int) -> None:
    cron = parse_cron(text, zone)
    start = moment("1970-01-01T00:00") + timedelta(hours=hours, seconds=second)
    found = [occurrence.due_date for occurrence in islice(occurrences(cron, start), 6)]
    # Three things we do otherwise: Debian makes up for a fixed time that the clock skips, right after the gap; cronsim
    # fires at a midnight that the clock skips; and it starts over where it starts the second time round.
    around = clock_changes(zone, start - DAY, (found[-1] if found else start) + DAY)
    gaps = [change for change in around if change.after > change.before]
    assume(cron.fields.fires_twice or not gaps)
    assume(not any(skips_midnight(gap) for gap in gaps))
    assume(not start.astimezone(zone).fold)

    expected = [due_date.astimezone(UTC) for due_date in islice(cronsim(text, start.astimezone(zone)), 6)]

    assert found == expected


def skips_midnight(gap: Change) -> bool:
    """Say whether a clock's gap includes a midnight."""
    low, high = (gap.at + offset - MICROSECOND for offset in (gap.before, gap.after))
    return low.date() != high.date()


@st.composite
def changes(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """Choose a zone and a moment near which its clock changes, if it ever does."""
    zone = draw(zones)
    year = draw(st.sampled_from([1867, 1900, 1945, 1980, 2011, 2024, 2026, 2087, 2300, 9998]) | st.integers(1867, 2037))
    start = datetime(year, 1, 1, tzinfo=UTC)
    found = [change.at for change in clock_changes(zone, start, start + 365 * DAY)]
    return zone, draw(st.sampled_from(found)) if found else start


@given(
    change=changes(),
    seconds=st.sets(st.integers(0, 59), min_size=1, max_size=2),
    minutes=st.none() | st.sets(st.integers(0, 59), min_size=1, max_size=9),
    hours=st.none() | st.sets(st.integers(0, 23), min_size=1, max_size=9),
    minutes_before=st.integers(0, 26 * 60),
)
@settings(deadline=None)  # the oracle looks at each minute of two days
def test_near_a_change_a_rule_fires_when_the_clock_shows_its_times(
    change: tuple[ZoneInfo, datetime],
    seconds: set[int],
    minutes: set[int] | None,
    hours: set[int] | None,
    minutes_before: int,
) -> None:
    zone, at = change
    start = at - minutes_before * MINUTE - timedelta(seconds=1)
    end = at + 26 * 60 * MINUTE
    text = " ".join(",".join(map(str, sorted(field))) if field else "*" for field in (seconds, minutes, hours))

    def fires(moment: datetime) -> bool:
        local = to_local(moment, zone)
        both_times = minutes is None or hours is None
        return (
            (hours is None or local.hour in hours)
            and (minutes is None or local.minute in minutes)
            and local.second in seconds
            and (both_times or not local.fold)
        )

    # Old offsets have odd seconds, so look at the one or two seconds of each minute in UTC that are those of the rule.
    odd = {(second - int(offset)) % 60 for second in seconds for offset in offsets(zone, start, end)}
    whole = start.replace(second=0)
    all_moments = (
        whole + n * MINUTE + timedelta(seconds=s) for n in range((end - whole) // MINUTE) for s in sorted(odd)
    )
    expected = [moment for moment in all_moments if moment > start and fires(moment)]

    found = occurrences(parse_cron(f"{text} * * ?", zone), start)
    assert [occurrence.due_date for occurrence in islice(found, len(expected))] == expected


def offsets(zone: ZoneInfo, start: datetime, end: datetime) -> set[float]:
    """Find a zone's offsets near a change, in seconds."""
    return {offset.total_seconds() for at in (start, end) if (offset := at.astimezone(zone).utcoffset()) is not None}


@given(
    text=spring_texts | unix_texts,
    change=changes(),
    before=st.timedeltas(timedelta(0), 3 * DAY),
    steps=st.integers(0, 40),
    nudge=st.sampled_from([timedelta(0), MICROSECOND, MINUTE / 7]),
)
def test_counting_what_was_missed_equals_stepping(
    text: str, change: tuple[ZoneInfo, datetime], before: timedelta, steps: int, nudge: timedelta
) -> None:
    zone, at = change
    cron = parse_cron(text, zone)
    stepped = list(islice(occurrences(cron, at - before), steps + 3))
    assume(len(stepped) > steps)
    current, last = stepped[0], stepped[steps]
    following = stepped[steps + 1] if steps + 1 < len(stepped) else None
    now = last.due_date + nudge
    assume(following is None or now < following.due_date)

    later = cron.after(current, now)

    assert later == Later(steps, following)
    if following:  # at the very moment when the next is due, it is missed as well
        assert cron.after(current, following.due_date).missed == steps + 1


DAY_RULES = ["?", "L", "LW", "L-1", "L-7", "L-29", "1W", "2W", "15W", "30W", "31W", "1", "31", "1-7", "*/10", "5/9"]
WEEKDAY_RULES = [
    "?",
    "0",
    "7",
    "MON",
    "MON-FRI",
    "FRI-SUN",
    "5L",
    "SUNL",
    "0#1",
    "6#5",
    "TUE#2",
    "1/2",
    "*/2",
    "SUN-TUE",
]


@given(day=st.sampled_from(DAY_RULES), weekday=st.sampled_from(WEEKDAY_RULES), year=st.integers(1, 9999))
@settings(deadline=None)  # looks at each day of a year
def test_days_are_those_found_by_looking_at_each_day(day: str, weekday: str, year: int) -> None:
    new_year = date(year, 1, 1)
    all_days = [new_year + n * DAY for n in range(sum(monthrange(year, month)[1] for month in range(1, 13)))]
    expected = [found for found in all_days if is_day(found, day) and is_weekday(found, weekday)]

    cron = parse_cron(f"0 0 12 {day} * {weekday}", UTC_ZONE)
    start = datetime(year, 1, 1, tzinfo=UTC)
    found = [occurrence.due_date.date() for occurrence in islice(occurrences(cron, start), len(expected) + 1)]

    assert [each for each in found if each.year == year] == expected


def is_day(found: date, rule: str) -> bool:
    """Say whether a day-of-month means a day, in as naive a way as possible."""
    last = monthrange(found.year, found.month)[1]
    workdays = [n for n in range(1, last + 1) if found.replace(day=n).weekday() < 5]
    if rule == "LW":
        return found.day == max(workdays)
    if rule.endswith("W"):
        goal = int(rule[:-1])
        # A Saturday's neighbours are Friday, one day off, and Monday, two days off; a Sunday's the other way round.
        return goal <= last and found.day == min(workdays, key=lambda n: abs(n - goal))
    if rule.startswith("L"):
        return found.day == last - int(rule[2:] or 0)
    return found.day in {"?": range(1, 32), "1-7": range(1, 8), "*/10": (1, 11, 21, 31), "5/9": (5, 14, 23)}.get(
        rule, [int(rule)] if rule.isdigit() else []
    )


def is_weekday(found: date, rule: str) -> bool:
    """Say whether a day-of-week means a day, in as naive a way as possible."""
    name = found.strftime("%a").upper()
    last = monthrange(found.year, found.month)[1]
    same = [n for n in range(1, last + 1) if (n - found.day) % 7 == 0]
    if rule in {"5L", "SUNL"}:
        return name == {"5L": "FRI", "SUNL": "SUN"}[rule] and found.day == same[-1]
    if "#" in rule:
        wanted, nth = rule.split("#")
        return name == {"0": "SUN", "6": "SAT"}.get(wanted, wanted) and same.index(found.day) + 1 == int(nth)
    chosen = {
        **dict.fromkeys(["?"], "MON TUE WED THU FRI SAT SUN"),
        **dict.fromkeys(["0", "7"], "SUN"),
        **dict.fromkeys(["1/2", "*/2"], "MON WED FRI SUN"),
        "MON-FRI": "MON TUE WED THU FRI",
        "FRI-SUN": "FRI SAT SUN",
        "SUN-TUE": "SUN MON TUE",
    }
    return name in chosen.get(rule, rule)


pieces = st.text("0123456789*/,-?LW#@SUNMOJA", max_size=6) | numbers(0, 70, ["FRI#2", "SUN-TUE", "LW", "3W", "@daily"])
near_cron = st.lists(pieces, max_size=8).map(" ".join)


@settings(max_examples=2_000)
@given(text=near_cron | st.text(st.characters(codec=None), max_size=300) | spring_texts, zone=zones)
def test_any_text_is_cron_or_refused_in_one_line(text: str, zone: ZoneInfo) -> None:
    try:
        cron = parse_cron(text, zone)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert parse_cron(str(cron), zone) == cron
        first = cron.first(datetime(2026, 1, 1, tzinfo=UTC))
        assert first is None or first.due_date <= LATEST_DUE_DATE
