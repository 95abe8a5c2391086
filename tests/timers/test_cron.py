"""Test the meaning of cron texts, and the refusals of wrong texts."""

import re
from datetime import UTC, datetime
from itertools import islice

import pytest

from shardclock_server.timers.cron import looks_like_cron, parse_cron
from shardclock_server.timers.moment import LATEST_DUE_DATE
from shardclock_server.timers.occurrence import CatchUp, ScheduledOccurrence
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.zone import UTC_ZONE, zone_of
from tests.support.cron_rules import local_times, moment, occurrences
from tests.support.refused_rules import REFUSED_CRON

BERLIN = zone_of("Europe/Berlin")
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


def days(text: str, created: str, count: int) -> list[str]:
    return [found[:10] for found in local_times(text, "UTC", created, count)]


# The meaning of a text.


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
        ("0 0 0 L-30 * ?", ["2026-03-01", "2026-05-01", "2026-07-01"]),  # only a month of 31 days matches this rule
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


def test_in_spring_rules_both_day_fields_must_match_and_in_unix_rules_one_is_enough() -> None:
    friday_13th = ["2026-02-13", "2026-03-13", "2026-11-13"]
    fridays_and_13ths = ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]

    assert days("0 0 0 13 * FRI", "2026-01-01T00:00:00", 3) == friday_13th
    assert days("0 0 13 * FRI", "2026-01-01T00:00:00", 4) == fridays_and_13ths


def test_a_unix_day_field_that_begins_with_a_star_must_also_match() -> None:
    even = ["2026-01-09", "2026-01-23", "2026-02-13"]

    assert days("0 0 */2 * FRI", "2026-01-02T00:00:00", 3) == even


def test_steps_over_the_week_count_from_monday_in_spring_and_from_sunday_in_unix() -> None:
    # From Sunday, 4 January 2026: Sunday, Monday and Thursday; Sunday, Wednesday and Saturday.
    assert days("0 0 0 ? * */3", "2026-01-03T00:00:00", 3) == ["2026-01-04", "2026-01-05", "2026-01-08"]
    assert days("0 0 * * */3", "2026-01-03T00:00:00", 3) == ["2026-01-04", "2026-01-07", "2026-01-10"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  0 0 12  ? jan-Mar  mon#2 ", "0 0 12 ? JAN-MAR MON#2"),
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
def test_a_text_that_begins_like_iso_is_not_cron(text: str) -> None:
    assert not looks_like_cron(text)


@pytest.mark.parametrize("text", ["* * * * *", " 0 0 0 ? * MON", "@daily", "", "every 5 minutes", "5 minutes"])
def test_any_other_text_is_cron(text: str) -> None:
    assert looks_like_cron(text)


# Refusals.


@pytest.mark.parametrize(("text", "reason"), REFUSED_CRON, ids=shortened)
def test_the_refusal_of_a_wrong_cron_text_has_the_value_the_rule_and_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(InvalidTimer, match=re.escape(f"{shortened(text)} {reason}")):
        parse_cron(text, UTC_ZONE)


# Limits of the calendar.


@pytest.mark.parametrize(
    "text", ["0 0 0 30 2 ?", "0 0 0 31 4,6,9,11 ?", "0 0 0 31W 2 ?", "0 0 0 8 * FRI#1", "0 0 30 2 *"]
)
def test_a_rule_that_never_matches_has_no_first_occurrence(text: str) -> None:
    cron = parse_cron(text, BERLIN)

    assert cron.first(FIRST_MOMENT) is None
    assert cron.after(ScheduledOccurrence(1, FIRST_MOMENT, FIRST_MOMENT, 1), LATEST_DUE_DATE) == CatchUp(0, None)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"])
@pytest.mark.parametrize("text", ["* * * * * *", "0 0 * * *", "0 30 2 31 12 ?", "0 0 0 29 2 MON"])
def test_cron_stops_at_the_years_1_and_9999(text: str, zone: str) -> None:
    cron = parse_cron(text, zone_of(zone))
    first = cron.first(FIRST_MOMENT)
    assert first is not None
    assert first.due_date.year <= 29

    later = cron.after(first, LATEST_DUE_DATE)

    assert later.next is None
    assert later.missed > 100
    assert cron.first(LATEST_DUE_DATE) is None
