"""Test that a repeat is due at the points of a grid in local time, and that each point is computed directly."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.duration import Duration
from shardclock_server.timers.moment import LATEST_DUE_DATE
from shardclock_server.timers.occurrence import WITHOUT_END, CatchUp, ScheduledOccurrence
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.repeat import Repeat, parse_repeat
from shardclock_server.timers.zone import UTC_ZONE
from tests.support.counted_calls import calls_of
from tests.support.refused_rules import REFUSED_REPEATS

BERLIN, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")
ANCHOR = datetime(2024, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


def elapsed(length: timedelta) -> Duration:
    return Duration(0, 0, length)


def dates(repeat: Repeat, created: str, count: int) -> list[str]:
    """List the first due dates, on the wall clock of the repeat's zone."""
    occurrence = repeat.first(datetime.fromisoformat(created).astimezone(UTC))
    found: list[str] = []
    while occurrence and len(found) < count:
        found.append(occurrence.due_date.astimezone(repeat.zone).isoformat())
        occurrence = repeat.next(occurrence)
    return found


@pytest.mark.parametrize(
    ("text", "repetitions", "period"),
    [
        ("R/PT5S", WITHOUT_END, elapsed(5 * SECOND)),
        ("R-1/PT5S", WITHOUT_END, elapsed(5 * SECOND)),
        ("R//PT5S", WITHOUT_END, elapsed(5 * SECOND)),
        ("R0/PT5S", 1, elapsed(5 * SECOND)),
        ("R1/PT5S", 1, elapsed(5 * SECOND)),
        ("R+3/+pt+5s", 3, elapsed(5 * SECOND)),
        ("R3/P1W", 3, Duration(0, 7, timedelta(0))),
        ("R/P1Y1M", WITHOUT_END, Duration(13, 0, timedelta(0))),
        ("R007/P1DT12H", 7, Duration(0, 1, timedelta(hours=12))),
        ("R2147483647/PT1S", 2_147_483_647, elapsed(timedelta(seconds=1))),
        ("R10/PT0.000001S", 10, elapsed(MICROSECOND)),
    ],
    ids=shortened,
)
def test_a_repeat_has_a_count_and_a_period(text: str, repetitions: int, period: Duration) -> None:
    assert parse_repeat(text, UTC_ZONE) == Repeat(repetitions, period, UTC_ZONE)


@pytest.mark.parametrize(
    ("text", "canonical", "zone"),
    [
        ("R-1/P1D", "R/P1D", "UTC"),
        ("R/PT24H", "R/PT24H", "UTC"),
        ("R0/P1W", "R1/P7D", "UTC"),
        ("R007/PT0,50H", "R7/PT30M", "UTC"),
        ("R3/PT0.0000001S", "R3/PT0.000001S", "UTC"),
        ("R0/2024-03-29T10:00+01:00/P1D", "R1/2024-03-29T09:00:00Z/P1D", "UTC"),
        ("R3/2024-03-29T10:00[Europe/Berlin]/P1D", "R3/2024-03-29T09:00:00Z/P1D", "Europe/Berlin"),
        ("R/2024-03-29T10:00:00+01:00[Europe/Berlin]/P1M", "R/2024-03-29T09:00:00Z/P1M", "Europe/Berlin"),
        ("R/2024-03-29T09:00:00Z[Europe/Berlin]/P1M", "R/2024-03-29T09:00:00Z/P1M", "Europe/Berlin"),
        ("R/2024-03-29T09:00:00Z/2024-03-30T09:00:00.5Z", "R/2024-03-29T09:00:00Z/PT24H0.5S", "UTC"),
        ("R/2024-03-29T09:00[Europe/Berlin]/2024-03-31T09:00", "R/2024-03-29T08:00:00Z/PT47H", "Europe/Berlin"),
        ("R/PT1H/2031-01-01T00:00:00Z", "R/PT1H/2031-01-01T00:00:00Z", "UTC"),
        ("R+3/+p1d/2031-01-01t00:00:00z", "R3/P1D/2031-01-01T00:00:00Z", "UTC"),
        ("R/2031-01-01t00:00z/+P1D", "R/2031-01-01T00:00:00Z/P1D", "UTC"),
        # If the clock skips the local time of the start, the text keeps this time, because other occurrences are
        # computed from it.
        ("R/2026-03-29T02:30[Europe/Berlin]/P1D", "R/2026-03-29T02:30:00/P1D", "Europe/Berlin"),
        ("R/2026-03-29T02:30:00.50+01:00[Europe/Berlin]/P1D", "R/2026-03-29T02:30:00.5/P1D", "Europe/Berlin"),
        ("R/2026-03-29T01:30:00Z[Europe/Berlin]/P1D", "R/2026-03-29T01:30:00Z/P1D", "Europe/Berlin"),
        ("R/PT1H/2031-01-01T00:00[Europe/Berlin]", "R/PT1H/2030-12-31T23:00:00Z", "Europe/Berlin"),
    ],
)
def test_the_stored_text_and_zone_read_back_to_the_same_repeat(text: str, canonical: str, zone: str) -> None:
    repeat = parse_repeat(text, UTC_ZONE)

    assert (str(repeat), repeat.zone.key) == (canonical, zone)
    assert parse_repeat(canonical, repeat.zone) == repeat


def test_local_times_are_read_in_the_zone_that_is_given_separately() -> None:
    assert str(parse_repeat("R/2024-07-01T09:00/P1D", BERLIN)) == "R/2024-07-01T07:00:00Z/P1D"
    assert str(parse_repeat("R/P1D/2024-07-01T09:00[Europe/Berlin]", BERLIN)) == "R/P1D/2024-07-01T07:00:00Z"


@pytest.mark.parametrize(("text", "rule"), REFUSED_REPEATS, ids=shortened)
def test_a_wrong_repeat_is_refused_with_the_rule(text: str, rule: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        parse_repeat(text, UTC_ZONE)

    assert rule in str(refused.value)
    assert str(refused.value).isprintable()


def test_without_a_start_the_first_occurrence_is_a_period_after_creation() -> None:
    repeat = parse_repeat("R/P1M", UTC_ZONE)

    assert repeat.first(ANCHOR) == ScheduledOccurrence(1, datetime(2024, 2, 1, tzinfo=UTC), ANCHOR, 0)
    assert repeat.first(ANCHOR, number=7) == ScheduledOccurrence(7, datetime(2024, 2, 1, tzinfo=UTC), ANCHOR, 6)


@pytest.mark.parametrize("created", [ANCHOR - timedelta(days=400), ANCHOR])
def test_a_future_start_is_the_first_occurrence(created: datetime) -> None:
    repeat = parse_repeat("R/2024-01-01T00:00:00Z/P1M", UTC_ZONE)

    assert repeat.first(created) == ScheduledOccurrence(1, ANCHOR, ANCHOR, 1)
    assert repeat.first(created, number=7) == ScheduledOccurrence(7, ANCHOR, ANCHOR, 7)


def test_a_past_start_only_sets_the_grid() -> None:
    repeat = parse_repeat("R3/2024-01-31T08:00:00Z/P1M", UTC_ZONE)

    first = repeat.first(datetime(2024, 3, 1, tzinfo=UTC))

    assert first == ScheduledOccurrence(
        1, datetime(2024, 3, 31, 8, tzinfo=UTC), datetime(2024, 1, 31, 8, tzinfo=UTC), -1
    )
    assert repeat.next(first) == first._replace(number=2, due_date=datetime(2024, 4, 30, 8, tzinfo=UTC))


def test_a_grid_point_at_the_moment_of_creation_is_the_first_occurrence() -> None:
    repeat = parse_repeat("R/2024-01-01T00:00:00Z/PT1S", UTC_ZONE)
    created = ANCHOR + 10 * SECOND

    assert repeat.first(created) == ScheduledOccurrence(1, created, ANCHOR, -9)
    assert repeat.first(created + MICROSECOND) == ScheduledOccurrence(1, created + SECOND, ANCHOR, -10)


def test_the_last_occurrence_is_at_the_end_or_before_it() -> None:
    repeat = parse_repeat("R/PT1H/2024-01-01T03:00:00Z", UTC_ZONE)
    last = ScheduledOccurrence(3, ANCHOR + timedelta(hours=3), ANCHOR, 0)

    assert len(dates(repeat, "2024-01-01T00:00:00Z", count=10)) == 3
    assert repeat.next(last) is None
    assert repeat.after(last._replace(number=1), ANCHOR + timedelta(days=9)) == CatchUp(2, None)
    assert repeat.first(ANCHOR + timedelta(hours=2)) is not None
    assert repeat.first(ANCHOR + timedelta(hours=2, microseconds=1)) is None


def test_a_short_month_does_not_move_the_grid() -> None:
    repeat = parse_repeat("R/2024-01-31T00:00:00Z/P1M", UTC_ZONE)

    found = dates(repeat, "2024-01-01T00:00:00Z", count=5)

    assert [date[5:10] for date in found] == ["01-31", "02-29", "03-31", "04-30", "05-31"]


def test_a_skipped_hour_moves_only_one_occurrence_forward() -> None:
    repeat = parse_repeat("R/2024-03-30T02:30[Europe/Berlin]/P1D", UTC_ZONE)

    assert dates(repeat, "2024-03-01T00:00:00Z", count=3) == [
        "2024-03-30T02:30:00+01:00",
        "2024-03-31T03:30:00+02:00",
        "2024-04-01T02:30:00+02:00",
    ]


@pytest.mark.parametrize("start", ["2026-03-29T02:30", "2026-03-29T02:30+01:00[Europe/Berlin]"])
def test_only_a_start_that_the_clock_skips_moves_forward(start: str) -> None:
    assert dates(parse_repeat(f"R/{start}/P1D", BERLIN), "2026-03-01T00:00Z", 3) == [
        "2026-03-29T03:30:00+02:00",
        "2026-03-30T02:30:00+02:00",
        "2026-03-31T02:30:00+02:00",
    ]
    assert dates(parse_repeat(f"R/{start}/P1M", BERLIN), "2026-04-01T00:00Z", 1) == ["2026-04-29T02:30:00+02:00"]
    assert dates(parse_repeat(f"R/{start}/P1Y", BERLIN), "2026-04-01T00:00Z", 1) == ["2027-03-29T02:30:00+02:00"]
    assert dates(parse_repeat(f"R/{start}/PT1H", BERLIN), "2026-03-01T00:00Z", 2) == [
        "2026-03-29T03:30:00+02:00",
        "2026-03-29T04:30:00+02:00",
    ]


def test_if_the_clock_skips_the_start_of_a_repeat_the_other_occurrences_are_counted_from_the_written_start() -> None:
    repeat = parse_repeat("R/2026-03-29T02:30/P1D", BERLIN)
    start = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    first = ScheduledOccurrence(1, start, start, 1)

    assert repeat.first(start) == first
    assert repeat.after(first, datetime(2026, 3, 30, 0, 29, tzinfo=UTC)).missed == 0
    assert repeat.after(first, datetime(2026, 3, 30, 0, 30, tzinfo=UTC)) == CatchUp(
        1, ScheduledOccurrence(3, datetime(2026, 3, 31, 0, 30, tzinfo=UTC), start, 1)
    )


def test_a_start_with_an_offset_is_not_a_skipped_time() -> None:
    for start in ("2026-03-29T01:30Z[Europe/Berlin]", "2026-03-29T02:30+01:00"):
        assert dates(parse_repeat(f"R/{start}/P1D", BERLIN), "2026-03-01T00:00Z", 2) == [
            "2026-03-29T03:30:00+02:00",
            "2026-03-30T03:30:00+02:00",
        ]


def test_an_occurrence_in_a_repeated_hour_is_due_in_the_first_pass() -> None:
    repeat = parse_repeat("R/2024-10-26T02:30[Europe/Berlin]/P1D", UTC_ZONE)

    assert dates(repeat, "2024-10-01T00:00:00Z", count=3) == [
        "2024-10-26T02:30:00+02:00",
        "2024-10-27T02:30:00+02:00",
        "2024-10-28T02:30:00+01:00",
    ]


def test_a_day_and_24_hours_differ_when_the_clock_changes() -> None:
    day, hours = (parse_repeat(text, BERLIN) for text in ("R/P1D", "R/PT24H"))

    assert dates(day, "2024-03-30T08:00:00+01:00", count=1) == ["2024-03-31T08:00:00+02:00"]
    assert dates(hours, "2024-03-30T08:00:00+01:00", count=1) == ["2024-03-31T09:00:00+02:00"]


def test_two_occurrences_of_a_skipped_day_are_counted_as_two() -> None:
    repeat = parse_repeat("R/2011-12-29T12:00[Pacific/Apia]/P1D", UTC_ZONE)
    first = repeat.first(datetime(2011, 12, 1, tzinfo=UTC))
    assert first is not None
    second = repeat.next(first)
    assert second is not None
    third = repeat.next(second)
    assert third is not None

    assert third.due_date == second.due_date
    assert repeat.after(first, second.due_date) == CatchUp(2, repeat.next(third))
    assert repeat.after(second, second.due_date) == CatchUp(1, repeat.next(third))
    assert repeat.after(first, second.due_date - MICROSECOND) == CatchUp(0, second)


@pytest.mark.parametrize(
    ("anchor", "now", "missed"),
    [
        ("2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z", 1),  # the month has 28 days, less than the average month
        ("2023-02-01T00:00:00Z", "2023-02-28T23:59:59Z", 0),
        ("2024-01-01T00:00:00Z", "2024-01-31T23:59:59Z", 0),  # the month has more days than the average
        ("2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", 1),
        ("1600-02-29T00:00:00Z", "9996-02-29T00:00:00Z", 100_752),
        ("1600-02-29T00:00:00Z", "9996-02-28T23:59:59Z", 100_751),
    ],
)
def test_months_are_counted_by_the_calendar_and_not_by_their_average(anchor: str, now: str, missed: int) -> None:
    repeat = parse_repeat("R/P1M", UTC_ZONE)
    start = datetime.fromisoformat(anchor)

    assert repeat.after(ScheduledOccurrence(0, start, start, 0), datetime.fromisoformat(now)).missed == missed


def test_an_occurrence_due_exactly_now_counts_as_due() -> None:
    repeat = Repeat(WITHOUT_END, elapsed(SECOND), UTC_ZONE)
    first = ScheduledOccurrence(1, ANCHOR + SECOND, ANCHOR, 0)

    assert repeat.after(first, ANCHOR + 2 * SECOND) == CatchUp(
        1, ScheduledOccurrence(3, ANCHOR + 3 * SECOND, ANCHOR, 0)
    )


def test_a_century_of_missed_microseconds_is_counted_exactly() -> None:
    repeat = Repeat(WITHOUT_END, elapsed(MICROSECOND), UTC_ZONE)
    now = datetime(2124, 1, 1, tzinfo=UTC)
    missed = (now - ANCHOR) // MICROSECOND

    assert repeat.after(ScheduledOccurrence(1, ANCHOR + MICROSECOND, ANCHOR, 0), now) == CatchUp(
        missed - 1, ScheduledOccurrence(missed + 1, now + MICROSECOND, ANCHOR, 0)
    )


@pytest.mark.parametrize("period", ["P9000Y", "P3000000D", "P9999Y", "P3652424D", "PT87658199H"])
def test_a_repeat_ends_before_the_year_10000(period: str) -> None:
    repeat = parse_repeat(f"R/{period}", BERLIN)
    at_anchor = ScheduledOccurrence(0, ANCHOR, ANCHOR, 0)

    assert repeat.first(ANCHOR) is None
    assert repeat.next(at_anchor) is None
    assert repeat.after(at_anchor, LATEST_DUE_DATE) == CatchUp(0, None)


def test_the_latest_due_date_is_not_infinity_in_postgres() -> None:
    anchor = LATEST_DUE_DATE - 2 * MICROSECOND
    repeat = Repeat(WITHOUT_END, elapsed(MICROSECOND), UTC_ZONE)

    assert repeat.after(ScheduledOccurrence(1, anchor, anchor, 0), anchor).next == ScheduledOccurrence(
        2, LATEST_DUE_DATE, anchor, 0
    )
    assert repeat.next(ScheduledOccurrence(2, LATEST_DUE_DATE, anchor, 0)) is None


PERIODS = st.builds(
    Duration,
    months=st.sampled_from([0, 0, 1, 2, 12, 13]),
    days=st.sampled_from([0, 0, 1, 2, 7, 31]),
    elapsed=st.sampled_from([timedelta(0), SECOND, timedelta(hours=11), timedelta(hours=24), timedelta(days=3)]),
).filter(lambda period: period.average() > timedelta(hours=6))


MOMENTS = st.datetimes(datetime(1840, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - UTC follows
REPEATS = st.builds(
    Repeat,
    repetitions=st.just(WITHOUT_END),
    period=PERIODS,
    zone=st.timezone_keys(allow_prefix=False).map(ZoneInfo),
    end=st.none() | MOMENTS,
)


@given(
    repeat=REPEATS,
    anchor=MOMENTS,
    steps=st.integers(0, 40),
    late=st.timedeltas(timedelta(days=-40), timedelta(days=400)),
)
def test_counting_and_stepping_find_the_same_occurrences(
    repeat: Repeat, anchor: datetime, steps: int, late: timedelta
) -> None:
    occurrence = ScheduledOccurrence(steps, anchor, anchor, 0)
    now = anchor + steps * repeat.period.average() + late

    missed, after = 0, repeat.next(occurrence)
    while after and after.due_date <= now:
        missed, after = missed + 1, repeat.next(after)

    assert repeat.after(occurrence, now) == CatchUp(missed, after)


@pytest.mark.parametrize("text", ["R/PT1S", "R/P1D", "R/2000-01-31T00:00:00Z/P1M", "R/P1Y1M1DT1H"])
def test_the_computation_of_the_next_occurrence_calls_few_functions_even_after_thousands_of_years(text: str) -> None:
    repeat = parse_repeat(text, BERLIN)
    first = repeat.first(ANCHOR)
    assert first is not None

    assert calls_of(lambda: repeat.after(first, datetime(9_000, 1, 1, tzinfo=UTC))) <= 100  # 18 to 64 calls
