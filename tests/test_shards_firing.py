"""What follows a timer that fires, and what is made of those that did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shards.firing import Leftover, firing_of, leftover
from sql.claims import Fired, Firing
from timers.model import ClaimedTimer
from timers.refusal import InvalidTimer

ANCHOR = datetime(2026, 3, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)


def plain(timer_key: int, due_date: datetime = ANCHOR) -> ClaimedTimer:
    return ClaimedTimer(timer_key, due_date, None, None, 1)


def repeat(schedule: str, occurrence: int) -> ClaimedTimer:
    return ClaimedTimer(1, ANCHOR + occurrence * MINUTE, schedule, ANCHOR, occurrence)


def test_nothing_follows_a_plain_timer() -> None:
    assert firing_of(plain(1), ANCHOR) == Firing(plain(1))


def test_a_repeat_is_followed_by_its_next_occurrence_on_the_grid() -> None:
    timer = repeat("R/PT1M", 3)

    for late in (timedelta(0), MICROSECOND, MINUTE - MICROSECOND):
        assert firing_of(timer, timer.due_date + late) == Firing(timer, 4, ANCHOR + 4 * MINUTE, skipped=0)


def test_a_clock_that_is_a_little_behind_skips_nothing() -> None:
    timer = repeat("R/PT1M", 3)

    assert firing_of(timer, timer.due_date - 10 * MICROSECOND) == Firing(timer, 4, ANCHOR + 4 * MINUTE)


def test_the_last_occurrence_is_followed_by_none() -> None:
    timer = repeat("R3/PT1M", 3)

    assert firing_of(timer, timer.due_date) == Firing(timer)


def test_missed_occurrences_are_counted_and_the_next_is_in_the_future() -> None:
    timer = repeat("R/PT1M", 3)

    assert firing_of(timer, ANCHOR + 10 * MINUTE) == Firing(timer, 11, ANCHOR + 11 * MINUTE, skipped=7)


def test_missed_occurrences_up_to_the_last_are_counted() -> None:
    timer = repeat("R5/PT1M", 3)

    assert firing_of(timer, ANCHOR + 60 * MINUTE) == Firing(timer, skipped=2)


def test_nothing_follows_an_occurrence_whose_successor_is_beyond_the_year_9999() -> None:
    period = timedelta(days=900_000)
    timer = ClaimedTimer(1, ANCHOR + period, "R/P900000D", ANCHOR, 1)
    last = ClaimedTimer(1, ANCHOR + 3 * period, "R/P900000D", ANCHOR, 3)

    assert firing_of(timer, timer.due_date).next_due_date == ANCHOR + 2 * period
    assert firing_of(last, last.due_date) == Firing(last)


def test_a_schedule_that_can_not_be_read_is_refused() -> None:
    with pytest.raises(InvalidTimer):
        firing_of(repeat("every now and then", 1), ANCHOR)


def test_those_that_did_not_fire_are_told_apart_by_postgres_own_time() -> None:
    early, cancelled, on_time = plain(1, ANCHOR + MICROSECOND), plain(2, ANCHOR), plain(3, ANCHOR - MINUTE)
    fired = Fired(server_time=ANCHOR + MINUTE, server_now=ANCHOR, timer_keys=frozenset([3]))

    assert leftover([early, cancelled, on_time], fired) == Leftover(early=[early], unexplained=[2])


def test_nothing_is_left_over_when_all_fired() -> None:
    sent = [plain(key) for key in (1, 2)]

    assert leftover(sent, Fired(ANCHOR, ANCHOR, frozenset([1, 2]))) == Leftover(early=[], unexplained=[])
