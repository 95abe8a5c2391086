"""A schedule stays on its grid: nothing is fired twice, and what was missed is counted."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timers.moment import LATEST_DUE_DATE
from timers.refusal import InvalidTimer, shortened
from timers.schedule import (
    WITHOUT_END,
    Following,
    Occurrence,
    Repeat,
    canonical_schedule,
    following,
    parse_schedule,
)

ANCHOR = datetime(2024, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "repetitions", "period"),
    [
        ("R/PT5S", WITHOUT_END, 5 * SECOND),
        ("R-1/PT5S", WITHOUT_END, 5 * SECOND),
        ("R0/PT5S", 1, 5 * SECOND),
        ("R1/PT5S", 1, 5 * SECOND),
        ("R3/P1W", 3, timedelta(weeks=1)),
        ("R007/P1DT12H", 7, timedelta(hours=36)),
        ("R2147483647/PT0.000001S", 2_147_483_647, MICROSECOND),
    ],
    ids=shortened,
)
def test_a_repeat_says_how_often_and_how_far_apart(text: str, repetitions: int, period: timedelta) -> None:
    assert parse_schedule(text) == Repeat(repetitions, period)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("R-1/P1D", "R/P1D"),
        ("R/PT24H", "R/PT24H"),
        ("R0/P1W", "R1/P7D"),
        ("R007/PT0,50H", "R7/PT30M"),
        ("R3/PT0.0000001S", "R3/PT0.000001S"),
    ],
)
def test_the_stored_text_keeps_days_and_hours_apart(text: str, canonical: str) -> None:
    assert canonical_schedule(text) == canonical
    assert parse_schedule(canonical) == parse_schedule(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("R-2/PT1S", "has the count -2"),
        ("R2147483648/PT1S", "has the count 2147483648"),
        ("R-0/PT1S", "has the count"),
        ("R/PT0S", "has a period of zero"),
        ("R/P0D", "has a period of zero"),
        ("R/P1M", "fixed length in weeks, days, hours, minutes and seconds"),
        ("R/P1YT1S", "fixed length in weeks, days, hours, minutes and seconds"),
        ("R/PT", "has no valid period: 'PT' is not an ISO 8601 duration"),
        ("R/-PT1S", "has no valid period"),
        ("R/PT1S\n", "has no valid period"),
        ("R/P9999Y9999M", "has no valid period"),
        ("R3/2024-01-01T00:00:00Z/P1D", "has a start or an end, which is not understood yet"),
        ("R3/PT10S/2024-06-01T00:00:00Z", "has a start or an end, which is not understood yet"),
        ("R//PT10S", "has a start or an end, which is not understood yet"),
        *[(text, "is not an ISO 8601 repeat") for text in ("", "/", "R", "R3", "R5/", "r3/PT1S", "R+3/PT1S")],
        *[(text, "is not an ISO 8601 repeat") for text in (" R/PT1S", "R٣/PT1S", "0 0 8 * * MON", "@daily")],
        ("R" + "1" * 100_000 + "/PT1S", "is not an ISO 8601 repeat"),
    ],
    ids=shortened,
)
def test_a_schedule_that_is_not_understood_is_refused_with_its_rule(text: str, rule: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        parse_schedule(text)

    assert rule in str(refused.value)


def test_on_time_the_next_occurrence_is_one_period_on() -> None:
    due_date = ANCHOR + 2 * SECOND

    assert following(Repeat(3, SECOND), anchor=ANCHOR, occurrence=1, now=ANCHOR + SECOND) == Following(
        skipped=0, next=Occurrence(2, due_date)
    )


def test_an_occurrence_due_exactly_now_counts_as_missed() -> None:
    now = ANCHOR + 2 * SECOND

    assert following(Repeat(WITHOUT_END, SECOND), anchor=ANCHOR, occurrence=1, now=now) == Following(
        skipped=1, next=Occurrence(3, ANCHOR + 3 * SECOND)
    )


def test_the_last_occurrence_is_followed_by_none() -> None:
    now = ANCHOR + 3 * SECOND

    assert following(Repeat(3, SECOND), anchor=ANCHOR, occurrence=3, now=now) == Following(0, None)


def test_what_was_missed_is_bounded_by_the_repetitions() -> None:
    now = ANCHOR + timedelta(days=1)

    assert following(Repeat(5, SECOND), anchor=ANCHOR, occurrence=2, now=now) == Following(3, None)


def test_an_occurrence_fired_before_its_due_date_skips_nothing() -> None:
    assert following(Repeat(WITHOUT_END, SECOND), anchor=ANCHOR, occurrence=7, now=ANCHOR) == Following(
        skipped=0, next=Occurrence(8, ANCHOR + 8 * SECOND)
    )


def test_a_century_of_missed_microseconds_is_counted_exactly() -> None:
    now = datetime(2124, 1, 1, tzinfo=UTC)
    missed = (now - ANCHOR) // MICROSECOND

    assert following(Repeat(WITHOUT_END, MICROSECOND), anchor=ANCHOR, occurrence=1, now=now) == Following(
        skipped=missed - 1, next=Occurrence(missed + 1, now + MICROSECOND)
    )


@pytest.mark.parametrize("days", [366 * 7_976, 3_000_000, 3_652_424])
def test_a_schedule_ends_before_the_year_10000(days: int) -> None:
    repeat = Repeat(WITHOUT_END, timedelta(days=days))

    assert following(repeat, anchor=ANCHOR, occurrence=1, now=ANCHOR) == Following(0, None)


def test_the_latest_due_date_is_not_the_one_postgres_takes_for_infinity() -> None:
    anchor = LATEST_DUE_DATE - 2 * MICROSECOND
    repeat = Repeat(WITHOUT_END, MICROSECOND)

    assert following(repeat, anchor=anchor, occurrence=1, now=anchor).next == Occurrence(2, LATEST_DUE_DATE)
    assert following(repeat, anchor=anchor, occurrence=2, now=anchor).next is None


@given(
    repetitions=st.just(WITHOUT_END) | st.integers(1, 60),
    period_us=st.integers(1, 40),
    occurrence=st.integers(1, 60),
    late_us=st.integers(-100, 1_500),
)
def test_the_next_occurrence_is_what_counting_one_by_one_finds(
    repetitions: int, period_us: int, occurrence: int, late_us: int
) -> None:
    repeat = Repeat(repetitions, period_us * MICROSECOND)
    now = ANCHOR + (occurrence * period_us + late_us) * MICROSECOND

    found = following(repeat, anchor=ANCHOR, occurrence=occurrence, now=now)

    assert found == counted_one_by_one(repeat, occurrence=occurrence, now=now)


def counted_one_by_one(repeat: Repeat, *, occurrence: int, now: datetime) -> Following:
    """Find by a naive loop what `following` finds by arithmetic."""
    skipped, number = 0, occurrence + 1
    while repeat.repetitions == WITHOUT_END or number <= repeat.repetitions:
        due_date = ANCHOR + number * repeat.period
        if due_date > now:
            return Following(skipped, Occurrence(number, due_date))
        skipped, number = skipped + 1, number + 1
    return Following(skipped, None)


@given(text=st.text(alphabet="R/P0123456789YMWDTHS.,-", max_size=30) | st.text(st.characters(codec=None)))
def test_any_text_is_a_schedule_or_refused_in_one_line(text: str) -> None:
    try:
        repeat = parse_schedule(text)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert parse_schedule(canonical_schedule(text)) == repeat
        assert repeat.period >= MICROSECOND
        assert repeat.repetitions == WITHOUT_END or repeat.repetitions >= 1
