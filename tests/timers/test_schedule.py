"""Test that a schedule's due dates are on its grid; test the three policies for missed occurrences."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.cron import Cron
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduledOccurrence, ScheduleRule
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.repeat import REPETITIONS_MAX, Repeat
from shardclock_server.timers.schedule import (
    MISSED_AFTER,
    Following,
    Missed,
    first_of,
    following,
    last_number,
    parse_schedule,
)

Named = Callable[[int], ScheduledOccurrence]

ANCHOR = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
HOURLY = parse_schedule("R/PT1H")
EVERY_HOUR = parse_schedule("0 0 * * * *")


def hour(number: int) -> ScheduledOccurrence:
    return ScheduledOccurrence(number, ANCHOR + number * HOUR, ANCHOR, 0)


def hour_of_cron(number: int) -> ScheduledOccurrence:
    return ScheduledOccurrence(number, ANCHOR + number * HOUR, ANCHOR + number * HOUR, number)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("R/PT1H", Repeat),
        ("R3/2024-01-01T00:00:00Z/P1M", Repeat),
        ("0 0 8 * * MON-FRI", Cron),
        ("0 8 * * MON-FRI", Cron),
        ("@daily", Cron),
    ],
)
def test_a_schedule_is_a_repeat_or_cron(text: str, kind: type) -> None:
    assert isinstance(parse_schedule(text), kind)


@pytest.mark.parametrize(
    ("text", "zone", "sentence"),
    [
        ("R/PT1H", "localtime", "'localtime' is not an IANA time zone"),
        ("R/2024-07-01T09:00[Europe/Berlin]/P1D", "Asia/Tokyo", "names the time zone Europe/Berlin, but its zone is"),
        ("R/PT", "UTC", "'R/PT' has no valid period"),
        ("r3/PT1S", "UTC", "is not an ISO 8601 repeat"),
        ("PT1S", "UTC", "is not an ISO 8601 repeat"),
        ("", "UTC", "'' has 0 fields"),
        ("* * *", "UTC", "'* * *' has 3 fields"),
        ("\ud800" * 100_000, "UTC", "is longer than"),
    ],
    ids=shortened,
)
def test_a_wrong_schedule_is_refused_with_the_rule(text: str, zone: str, sentence: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        parse_schedule(text, zone)

    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "text", ["0 0 0 30 2 *", "0 0 31 4 *", "R/P1D/2024-01-01T23:00:00Z", "R/P9999Y", "R/9999-12-31T12:00Z/P1D"]
)
def test_a_schedule_that_never_occurs_is_refused(text: str) -> None:
    created = datetime(9_999, 12, 31, 18, tzinfo=UTC) if "9999-" in text else ANCHOR
    rule = parse_schedule(text)

    assert rule.first(created) is None
    with pytest.raises(InvalidTimer, match=r"^schedule '.+' never occurs after .+Z; choose one with a date"):
        first_of(rule, created)


def test_a_schedule_begins_with_the_given_number() -> None:
    assert first_of(HOURLY, ANCHOR, number=5) == ScheduledOccurrence(5, ANCHOR + HOUR, ANCHOR, 4)
    assert first_of(EVERY_HOUR, ANCHOR, number=5) == ScheduledOccurrence(5, ANCHOR + HOUR, ANCHOR + HOUR, 5)
    assert first_of(HOURLY, ANCHOR) == hour(1)


@pytest.mark.parametrize("missed", list(Missed))
def test_an_occurrence_on_time_is_followed_by_the_next_under_each_policy(missed: Missed) -> None:
    late = hour(1).due_date + timedelta(seconds=5)

    assert following(HOURLY, hour(1), repetitions=-1, now=late, missed=missed) == Following(True, 0, hour(2))
    assert following(EVERY_HOUR, hour_of_cron(1), repetitions=-1, now=late, missed=missed) == Following(
        True, 0, hour_of_cron(2)
    )


@pytest.mark.parametrize("missed", list(Missed))
def test_the_last_occurrence_has_no_next_occurrence(missed: Missed) -> None:
    for current in (hour(3), hour(4)):  # a changed rule may already be past its last occurrence
        assert following(HOURLY, current, repetitions=3, now=current.due_date, missed=missed) == Following(
            True, 0, None
        )


@pytest.mark.parametrize(("rule", "named"), [(HOURLY, hour), (EVERY_HOUR, hour_of_cron)])
def test_fire_all_fires_each_occurrence_in_order(rule: ScheduleRule, named: Named) -> None:
    now = ANCHOR + 10 * HOUR

    assert following(rule, named(3), repetitions=-1, now=now, missed=Missed.FIRE_ALL) == Following(True, 0, named(4))


@pytest.mark.parametrize(("rule", "named"), [(HOURLY, hour), (EVERY_HOUR, hour_of_cron)])
def test_skip_leaves_out_a_gap_up_to_the_occurrence_that_is_on_time(rule: ScheduleRule, named: Named) -> None:
    on_time, too_late = ANCHOR + 10 * HOUR + MISSED_AFTER, ANCHOR + 10 * HOUR + MISSED_AFTER + MICROSECOND

    for now, expected in ((on_time, Following(False, 7, named(10))), (too_late, Following(False, 8, named(11)))):
        assert following(rule, named(3), repetitions=-1, now=now, missed=Missed.SKIP) == expected


def test_skip_still_fires_after_a_takeover() -> None:
    limit = hour(3).due_date + MISSED_AFTER

    assert following(HOURLY, hour(3), repetitions=-1, now=limit, missed=Missed.SKIP) == Following(True, 0, hour(4))
    assert following(HOURLY, hour(3), repetitions=-1, now=limit + MICROSECOND, missed=Missed.SKIP) == Following(
        False, 1, hour(4)
    )


@pytest.mark.parametrize(
    ("missed", "expected", "last"),
    [
        (Missed.FIRE_ONCE, Following(True, 7, hour(11)), 12),
        (Missed.FIRE_ALL, Following(True, 0, hour(4)), 5),
        (Missed.SKIP, Following(False, 7, hour(10)), 12),
    ],
)
def test_skipped_occurrences_use_up_no_repetition(missed: Missed, expected: Following, last: int) -> None:
    now = ANCHOR + 10 * HOUR

    found = following(HOURLY, hour(3), repetitions=5, now=now, missed=missed)

    assert found == expected
    assert last_number(5, found.skipped) == last


@pytest.mark.parametrize("missed", list(Missed))
@pytest.mark.parametrize("gap_at", range(5))
def test_a_schedule_of_three_fires_three_times_after_any_gap(missed: Missed, gap_at: int) -> None:
    rule = parse_schedule("R3/PT1H")
    occurrence: ScheduledOccurrence | None = first_of(rule, ANCHOR)
    last, fired, turns, late = rule.repetitions, [], 0, 0 * HOUR

    while occurrence:
        late = 10 * HOUR if turns == gap_at else late if missed == Missed.FIRE_ALL else 0 * HOUR
        found = following(rule, occurrence, repetitions=last, now=occurrence.due_date + late, missed=missed)
        fired += [occurrence.number] if found.fires else []
        occurrence, last, turns = found.next, last_number(last, found.skipped), turns + 1

    assert len(fired) == 3
    assert last == fired[-1]


def test_the_last_firing_ends_a_schedule_after_any_gap() -> None:
    late = ANCHOR + 100 * HOUR

    assert following(HOURLY, hour(3), repetitions=3, now=late) == Following(True, 0, None)
    assert following(HOURLY, hour(3), repetitions=3, now=late, missed=Missed.SKIP) == Following(False, 97, hour(100))


def test_the_numbers_of_a_schedule_end_at_the_limit_of_the_column() -> None:
    assert last_number(WITHOUT_END, 7) == WITHOUT_END
    assert last_number(REPETITIONS_MAX - 1, 7) == REPETITIONS_MAX
    late = hour(3).due_date + REPETITIONS_MAX * timedelta(seconds=1)
    often = parse_schedule("R2147483647/PT1S")
    assert (
        following(
            often, ScheduledOccurrence(3, hour(3).due_date, ANCHOR, 3), repetitions=REPETITIONS_MAX, now=late
        ).next
        is None
    )


def test_the_repetitions_come_from_the_row_and_not_from_the_rule() -> None:
    thrice = parse_schedule("R3/PT1H")

    assert following(thrice, hour(3), repetitions=7, now=hour(3).due_date).next == hour(4)
    assert following(HOURLY, hour(3), repetitions=3, now=hour(3).due_date).next is None


@pytest.mark.parametrize("missed", list(Missed))
def test_a_due_date_that_a_user_moved_does_not_move_the_grid(missed: Missed) -> None:
    moved = hour(3)._replace(due_date=ANCHOR + timedelta(hours=3, minutes=20))

    assert following(HOURLY, moved, repetitions=-1, now=moved.due_date, missed=missed) == Following(True, 0, hour(4))


@given(
    rule=st.sampled_from([HOURLY, EVERY_HOUR, parse_schedule("R/PT7H/2024-01-03T00:00:00Z")]),
    number=st.integers(1, 60),
    repetitions=st.just(WITHOUT_END) | st.integers(1, 60),
    late=st.timedeltas(-3 * HOUR, 100 * HOUR) | st.integers(0, 100).map(lambda hours: hours * HOUR),
)
def test_the_next_occurrence_equals_the_one_that_stepping_finds(
    rule: ScheduleRule, number: int, repetitions: int, late: timedelta
) -> None:
    current = first_of(rule, ANCHOR, number=number)
    now = current.due_date + late

    skipped, after = 0, rule.next(current)
    while after and after.due_date <= now:
        skipped, after = skipped + 1, rule.next(after)
    if repetitions != WITHOUT_END and number >= repetitions:
        skipped, after = 0, None

    assert following(rule, current, repetitions=repetitions, now=now) == Following(True, skipped, after)
