"""Test that cron follows a zone's clock through every change, and counts missed occurrences without a visit of each."""

from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.timers.cron import parse_cron
from shardclock_server.timers.moment import LATEST_DUE_DATE
from shardclock_server.timers.occurrence import CatchUp, ScheduledOccurrence
from shardclock_server.timers.offsets import clock_changes
from shardclock_server.timers.zone import UTC_ZONE, zone_of
from tests.support.cron_rules import local_times, moment

BERLIN = zone_of("Europe/Berlin")
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


# Clock changes.


def test_cron_leaves_out_a_time_that_the_clock_skips() -> None:
    expected = ["2026-03-28T02:30+01:00", "2026-03-30T02:30+02:00"]

    assert local_times("0 30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 2) == expected
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 2) == expected


def test_cron_leaves_out_a_day_that_the_clock_skips() -> None:
    expected = ["2011-12-29T12:00-10:00", "2011-12-31T12:00+14:00"]

    assert local_times("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00", 2) == expected


def test_cron_fires_once_at_a_local_time_that_occurs_twice() -> None:
    expected = ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]

    assert local_times("0 30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", 2) == expected
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", 2) == expected


@pytest.mark.parametrize("text", ["0 30 * * * *", "30 * * * *", "30 */2 * * *", "*/30 2 * * *"])
def test_a_star_in_the_minute_or_the_hour_fires_at_both_times(text: str) -> None:
    found = local_times(text, "Europe/Berlin", "2026-10-25T00:00+02:00", 8)

    assert {"2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"} <= set(found)


def test_a_schedule_made_in_a_repeated_hour_does_not_fire_at_past_times() -> None:
    second_time_round = "2026-10-25T02:10+01:00"

    assert local_times("20,40 2,3 * * *", "Europe/Berlin", second_time_round, 1) == ["2026-10-25T03:20+01:00"]
    assert local_times("20,40 * * * *", "Europe/Berlin", second_time_round, 1) == ["2026-10-25T02:20+01:00"]


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        # The clock goes back from 00:01 on 1 January 1944 to 23:01 of the year before.
        (
            "0 */30 23 31 12 FRI",
            "America/Phoenix",
            ["1943-12-31T23:30-06:00", "1943-12-31T23:30-07:00", "1948-12-31T23:00-07:00"],
        ),
        # The clock goes back from 00:00 on 1 January 1953 to 16:00 of the year before; in UTC it is 1953.
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


# Numbers and counts of occurrences.


def test_each_occurrence_is_its_own_anchor_and_gets_the_next_number() -> None:
    cron = parse_cron("@daily", BERLIN)

    first = cron.first(moment("2026-01-01T12:00Z"), number=7)

    assert first == ScheduledOccurrence(7, midnight := moment("2026-01-02T00:00+01:00"), midnight, 7)
    assert cron.next(first) == ScheduledOccurrence(8, midnight + DAY, midnight + DAY, 8)
    assert cron.repetitions == -1


def test_a_match_at_the_moment_of_creation_does_not_fire() -> None:
    cron = parse_cron("@daily", UTC_ZONE)
    midnight = moment("2026-01-02T00:00")

    assert [found.due_date for found in (cron.first(midnight - MICROSECOND), cron.first(midnight)) if found] == [
        midnight,
        midnight + DAY,
    ]


def test_cron_counts_from_the_grid_after_a_user_moved_the_due_date() -> None:
    cron = parse_cron("@daily", UTC_ZONE)
    anchor = moment("2026-01-02T00:00")
    moved = ScheduledOccurrence(3, due_date=anchor + 5 * DAY, anchor=anchor, anchor_number=3)

    assert cron.next(moved) == ScheduledOccurrence(4, anchor + DAY, anchor + DAY, 4)
    assert cron.after(moved, anchor + 3 * DAY / 2) == CatchUp(
        1, ScheduledOccurrence(5, anchor + 2 * DAY, anchor + 2 * DAY, 5)
    )


def test_no_occurrence_is_missed_before_its_due_date() -> None:
    cron = parse_cron("@daily", UTC_ZONE)
    current = cron.first(moment("2026-01-01T12:00"))
    assert current is not None

    assert cron.after(current, moment("2025-01-01T00:00")) == CatchUp(0, cron.next(current))
    assert cron.after(current, current.due_date) == CatchUp(0, cron.next(current))


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
def test_millions_of_missed_matches_are_counted_by_arithmetic(text: str, zone: str, until: str, missed: int) -> None:
    cron = parse_cron(text, zone_of(zone))
    anchor = moment("2026-01-01T00:00:00Z")

    assert cron.after(ScheduledOccurrence(1, anchor, anchor, 1), moment(until)).missed == missed


def test_counting_over_centuries_equals_counting_piece_by_piece() -> None:
    cron = parse_cron("0 30 2 * * *", BERLIN)
    moments = [datetime(year, 1, 1, tzinfo=UTC) for year in (1, 1850, 1950, 2050, 2300, 2750, 9999)]

    def missed(start: datetime, until: datetime) -> int:
        return cron.after(ScheduledOccurrence(1, start, start, 1), until).missed

    assert missed(moments[0], moments[-1]) == sum(map(missed, moments, moments[1:]))


def test_counting_stops_at_the_last_day_of_the_wall_clock() -> None:
    cron = parse_cron("* * * * * *", zone_of("Pacific/Kiritimati"))
    last = moment("9999-12-31T23:59:59+14:00")
    start = LATEST_DUE_DATE.replace(microsecond=0) - 2 * timedelta(days=146_097)

    later = cron.after(ScheduledOccurrence(1, start, start, 1), LATEST_DUE_DATE)

    assert later == CatchUp((last - start) // timedelta(seconds=1), None)


def test_the_first_clock_change_of_all_zones_is_found() -> None:
    found = list(clock_changes(zone_of("Asia/Manila"), FIRST_MOMENT, moment("1890-01-01T00:00")))

    assert [(change.at.year, (change.after - change.before) / DAY) for change in found] == [(1844, 1)]
