"""Test the preview of a stored schedule: its own dates, an extra run, missed occurrences, its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardclock_server.service.next_due import count_missed, last_missed, preview_of
from shardclock_server.sql.clients.history import UpcomingTimer


def moment(text: str) -> datetime:
    """Read a moment, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plan(rule: str, due: str, *, repetitions: int = -1, missed: str = "fire_once", zone: str = "UTC") -> UpcomingTimer:
    """Make a schedule that has fired three times."""
    due_date = moment(due)
    return UpcomingTimer(due_date, rule, zone, None, due_date, 4, 4, repetitions, missed, due_date)


def previewed(plan: UpcomingTimer, now: str, count: int = 3) -> list[tuple[int, str]]:
    """List the numbers and local times of the next occurrences."""
    assert plan.schedule is not None
    return [(it.number, it.local[:16]) for it in preview_of(plan, plan.schedule, moment(now), count=count)]


def test_a_preview_begins_with_the_next_occurrence_and_the_others_follow_the_grid() -> None:
    hourly = plan("R/PT1H", "2026-03-01T12:00")

    assert previewed(hourly, "2026-03-01T11:30") == [
        (4, "2026-03-01T12:00"),
        (5, "2026-03-01T13:00"),
        (6, "2026-03-01T14:00"),
    ]


def test_a_preview_ends_with_the_last_repetition() -> None:
    assert [
        number for number, _ in previewed(plan("R5/PT1H", "2026-03-01T12:00", repetitions=5), "2026-03-01T11:30")
    ] == [
        4,
        5,
    ]


@pytest.mark.parametrize(
    ("missed", "numbers"), [("fire_once", [4, 7, 8]), ("fire_all", [4, 5, 6]), ("skip", [7, 8, 9])]
)
def test_a_preview_of_a_late_schedule_follows_its_policy(missed: str, numbers: list[int]) -> None:
    late = plan("R/PT1H", "2026-03-01T12:00", missed=missed)

    assert [number for number, _ in previewed(late, "2026-03-01T14:30")] == numbers


def test_an_extra_run_comes_before_the_kept_date() -> None:
    ran = replace(plan("R/PT1H", "2026-03-01T11:30"), kept_due_date=moment("2026-03-01T12:00"), anchor_occurrence=5)

    assert previewed(replace(ran, anchor=moment("2026-03-01T12:00")), "2026-03-01T11:29") == [
        (4, "2026-03-01T11:30"),
        (5, "2026-03-01T12:00"),
        (6, "2026-03-01T13:00"),
    ]


def test_a_preview_marks_a_change_of_the_clock() -> None:
    nightly = plan("0 2 * * *", "2026-03-28T01:00", zone="Europe/Berlin")

    notes = [it.edge for it in preview_of(nightly, "0 2 * * *", moment("2026-03-28T00:00"), count=2)]

    assert notes[0] is None
    assert notes[1] is not None
    assert "which the clock skips" in notes[1]


def test_a_paused_schedule_has_missed_the_occurrences_that_are_due_before_now() -> None:
    hourly = plan("R/PT1H", "2026-01-01T08:00")

    counts = [count_missed(hourly, moment(now)) for now in ("2026-01-01T08:00", "2026-01-01T08:01", "2026-01-01T11:00")]
    assert counts == [0, 1, 3]
    assert count_missed(replace(hourly, repetitions=5), moment("2026-01-02T08:00")) == 2
    later = plan("R/PT1H", "2026-01-01T10:00")
    run = replace(later, due_date=moment("2026-01-01T08:00"), kept_due_date=later.due_date, anchor_occurrence=5)
    assert count_missed(run, moment("2026-01-01T10:30")) == 2, "the run on request, and the kept date"


@pytest.mark.parametrize(
    ("rule", "due", "now", "last"),
    [
        ("R/PT1H", "2026-01-01T08:00", "2026-01-01T08:00", None),
        ("R/PT1H", "2026-01-01T08:00", "2026-01-01T08:01", "2026-01-01T08:00"),
        ("R/PT1H", "2026-01-01T08:00", "2026-01-01T11:00", "2026-01-01T10:00"),
        ("30 2 29 2 *", "2020-02-29T02:30", "2026-01-01T00:00", "2024-02-29T02:30"),
        ("* 0 * * *", "2026-01-01T00:00", "2026-01-04T12:00", "2026-01-04T00:59"),
    ],
)
def test_the_last_missed_occurrence_is_the_one_before_now(rule: str, due: str, now: str, last: str | None) -> None:
    assert last_missed(plan(rule, due), moment(now)) == (None if last is None else moment(last))


def test_the_last_missed_occurrence_obeys_the_end_a_run_and_a_move() -> None:
    hourly = plan("R/PT1H", "2026-01-01T08:00")
    assert last_missed(replace(hourly, repetitions=5), moment("2026-01-02T08:00")) == moment("2026-01-01T09:00")
    later = plan("R/PT1H", "2026-01-01T10:00")
    run = replace(later, due_date=moment("2026-01-01T08:00"), kept_due_date=later.due_date, anchor_occurrence=5)
    assert last_missed(run, moment("2026-01-01T09:30")) == moment("2026-01-01T08:00")
    assert last_missed(run, moment("2026-01-01T10:30")) == moment("2026-01-01T10:00")
    moved = replace(hourly, due_date=moment("2026-01-01T11:50"))
    assert last_missed(moved, moment("2026-01-01T11:55")) == moment("2026-01-01T11:00")


@pytest.mark.parametrize(("missed", "numbers"), [("skip", [8, 9]), ("fire_once", [4, 8]), ("fire_all", [4, 5])])
def test_the_preview_of_a_resumed_schedule_follows_the_choice(missed: str, numbers: list[int]) -> None:
    resumed = replace(plan("R/PT1H", "2026-01-01T08:00", missed=missed), missed_before=moment("2026-01-01T11:30"))

    assert [number for number, _ in previewed(resumed, "2026-01-01T11:31", count=2)] == numbers
