"""Test the outcome of a due timer, the next occurrence, and the handling of timers that did not fire."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.shards.firing import Leftover, firing_of, held_and_forgotten, is_unplanned, leftover, planning_of
from shardclock_server.sql.firing.fire import Fired, Firing, Planning
from shardclock_server.timers.model import ClaimedTimer
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduledOccurrence
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.repeat import REPETITIONS_MAX
from shardclock_server.timers.schedule import parse_schedule
from tests.support.factories import ANCHOR, plain

MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)


def repeat(
    schedule: str = "R/PT1M", occurrence: int = 3, *, repetitions: int = WITHOUT_END, missed: str = "fire_once"
) -> ClaimedTimer:
    return ClaimedTimer(
        1, due(occurrence), schedule, "UTC", missed, None, ANCHOR, 0, occurrence, repetitions, False, None, 0, 1
    )


def unplanned(schedule: str, occurrence: int = 1, zone: str = "UTC") -> ClaimedTimer:
    return ClaimedTimer(
        1, ANCHOR, schedule, zone, "fire_once", None, ANCHOR, None, occurrence, WITHOUT_END, False, None, 0, 1
    )


def due(number: int) -> datetime:
    return ANCHOR + number * MINUTE


def nth(number: int) -> ScheduledOccurrence:
    return ScheduledOccurrence(number, due(number), ANCHOR, 0)


def test_during_a_hold_a_shard_keeps_timers_for_the_time_of_a_lease_and_drops_the_others() -> None:
    timers = [unplanned("R/PT1H"), unplanned("R/PT1H")]
    due_s = ANCHOR.timestamp()

    assert held_and_forgotten(timers, now_s=due_s + 9.9, lease_s=10.0) == (timers, [])
    assert held_and_forgotten(timers, now_s=due_s + 10.0, lease_s=10.0) == ([], timers)


def test_a_plain_timer_has_no_next_occurrence() -> None:
    assert firing_of(plain(1), ANCHOR) == Firing(plain(1))


def test_a_changed_rule_ends_at_the_repetitions_of_the_row_and_not_at_the_count_of_the_rule() -> None:
    timer = repeat("R3/PT1M", 3, repetitions=5)

    assert firing_of(timer, due(3)).next == nth(4)


def test_missed_occurrences_are_counted_and_the_next_is_in_the_future() -> None:
    assert firing_of(repeat(), due(10)) == Firing(repeat(), skipped=7, next=nth(11), period=MINUTE)


@pytest.mark.parametrize(
    ("schedule", "suits"), [(None, True), ("R/PT1M", True), ("R/P1M", False), ("R/PT1M/9000-01-01T00:00Z", False)]
)
def test_a_claim_can_fire_plain_timers_and_schedules_of_a_fixed_period(schedule: str | None, *, suits: bool) -> None:
    timer = plain(1) if schedule is None else repeat(schedule)

    assert firing_of(timer, due(3)).suits_claims is suits


@pytest.mark.parametrize("text", ["every now and then", "R/PT0S", "R/PT1M "])
def test_a_schedule_that_can_not_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidTimer):
        firing_of(repeat(text), ANCHOR)
    with pytest.raises(InvalidTimer):
        planning_of(unplanned(text))


@pytest.mark.parametrize(("text", "zone"), [("0 0 30 2 *", "UTC"), ("@daily", "Mars/Olympus")])
def test_a_schedule_that_can_not_be_planned_is_refused(text: str, zone: str) -> None:
    with pytest.raises(InvalidTimer):
        planning_of(unplanned(text, zone=zone))


# Planning


def test_only_a_schedule_that_has_no_place_on_its_grid_is_unplanned() -> None:
    assert [is_unplanned(timer) for timer in (plain(1), repeat(), unplanned("@daily"))] == [False, False, True]


def test_a_schedule_is_planned_from_the_moment_of_its_creation() -> None:
    timer = unplanned(" 0 8 * * mon ", zone="Europe/Berlin")
    monday = datetime(2026, 3, 30, 6, tzinfo=UTC)

    expected = ScheduledOccurrence(1, monday, monday, 1)
    rule = parse_schedule("0 8 * * MON", "Europe/Berlin")
    assert planning_of(timer) == Planning(timer, rule, expected, WITHOUT_END)


@pytest.mark.parametrize(
    ("text", "occurrence", "repetitions"),
    [
        ("R/P1M", 5, WITHOUT_END),
        ("R3/P1M", 1, 3),
        ("R3/P1M", 5, 7),
        ("R0/P1M", 5, 5),
        ("R2147483647/P1M", 5, REPETITIONS_MAX),
        ("@daily", 5, WITHOUT_END),
    ],
)
def test_the_numbers_continue_after_a_change_of_the_rule(text: str, occurrence: int, repetitions: int) -> None:
    planning = planning_of(unplanned(text, occurrence))

    assert (planning.first.number, planning.repetitions) == (occurrence, repetitions)


# Timers that did not fire


def test_timers_that_did_not_fire_are_separated_by_postgres_own_time() -> None:
    early, cancelled, on_time = plain(1, ANCHOR + MICROSECOND), plain(2, ANCHOR), plain(3, ANCHOR - MINUTE)
    fired = Fired(server_time=ANCHOR + MINUTE, server_now=ANCHOR, timer_keys=frozenset([3]), lags=())

    assert leftover([early, cancelled, on_time], fired) == Leftover(early=[early], unexplained=[2])


def test_if_all_timers_fired_none_is_left_to_explain() -> None:
    sent = [plain(key) for key in (1, 2)]

    assert leftover(sent, Fired(ANCHOR, ANCHOR, frozenset([1, 2]), ())) == Leftover(early=[], unexplained=[])


@pytest.mark.parametrize(
    ("missed", "fires", "skipped", "next_number"),
    [("skip", False, 7, 10), ("fire_once", True, 6, 10), ("fire_all", True, 0, 4)],
)
def test_the_choice_of_a_resume_applies_only_to_the_occurrences_before_the_resume(
    missed: str, *, fires: bool, skipped: int, next_number: int
) -> None:
    # Occurrence 10 was not missed, because it was the next occurrence at the resume; now occurrence 15 is due.
    timer = replace(repeat(missed=missed), missed_before=due(10))

    assert firing_of(timer, due(15)) == Firing(
        timer, fires=fires, skipped=skipped, next=nth(next_number), period=MINUTE
    )
