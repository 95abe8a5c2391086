"""Change a valid run so that it violates promises about schedules; VIOLATIONS has each change."""

from __future__ import annotations

from chaos.scripted.good_run import A, Violation, schedule, timer
from chaos.scripted.run import ScriptedRun


def an_occurrence_is_left_out(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R5/PT1S", name="gap"), 46.002)
    run.fire_in_time(A, 800, run.next_of(800, 802, 48.002, number=3))
    run.cancel(47, 802)
    run.call(47, "cancel", "ada", "unknown", name="gap")


def occurrences_come_in_another_order(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R5/PT1S", name="gap"), 46.002)
    run.fire_in_time(A, 800, run.next_of(800, 802, 48.002, number=3), run.next_of(800, 804, 47.002, number=2))
    for key in (802, 804):
        run.cancel(46.2, key)
    run.call(46, "cancel", "ada", "unknown", name="gap")


def an_occurrence_is_off_the_grid(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R2/PT1S", name="off"), 46.002)
    run.fire_in_time(A, 800, run.next_of(800, 802, 47.502))
    run.fire_in_time(A, 802)


def a_cron_rule_begins_off_the_grid(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="*/5 * * * * *", name="off"), 46)
    run.cancel(45.5, 800)
    run.call(45.5, "cancel", "ada", "unknown", name="off")


def a_schedule_begins_late(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R1/PT1S", name="late"), 46.5)
    run.fire_in_time(A, 800)


def a_schedule_fires_once_too_often(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R1/PT1S", name="more"), 46.002)
    run.fire_in_time(A, 800, run.next_of(800, 802, 47.002))
    run.fire_in_time(A, 802)


def a_gap_uses_up_a_firing(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R2/PT0.02S", name="brief"), 45.022)
    run.claim(45.01, A, 800)
    skipped = run.record(45.07, 800, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    run.fire(45.07, A, 800, skipped)


def a_gap_adds_a_firing(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R2/PT0.02S", name="long"), 45.022)
    run.claim(45.01, A, 800)
    skipped = run.record(45.07, 800, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    run.fire(45.07, A, 800, skipped, run.next_of(800, 802, 45.082, number=4))
    run.fire_in_time(A, 802, run.next_of(802, 804, 45.102))
    run.fire_in_time(A, 804)


def nothing_follows_an_occurrence(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R3/PT1S", name="stops"), 46.002)
    run.fire_in_time(A, 800)


def an_occurrence_follows_nothing(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R2/PT1S", name="early bird"), 46.002)
    following = run.next_of(800, 802, 47.002)
    again = run.next_of(800, 804, 47.002)
    run.fire_in_time(A, 800, following)
    run.call(46.3, "cancel", "ada", "unknown", name="early bird")
    run.cancel(46.3, 802)
    run.commit(46.4, again)
    run.fire_in_time(A, 804)


VIOLATIONS: list[tuple[str, Violation, str]] = [
    ("S5", an_occurrence_is_left_out, "timer 802 of ada/gap #3: the next occurrence is #2"),
    ("S5", occurrences_come_in_another_order, "timer 802 of ada/gap #3: the next occurrence is #2"),
    (
        "S6",
        an_occurrence_is_off_the_grid,
        "timer 802 of ada/off #2: the due date is 08:00:47.502000, the oracle's date is 08:00:47.002",
    ),
    (
        "S6",
        a_cron_rule_begins_off_the_grid,
        "timer 800 of ada/off #1: the due date is 08:00:46.000000, the oracle's date is none",
    ),
    ("S6", a_schedule_begins_late, "timer 800 of ada/late #1: the due date is 08:00:46.500000"),
    ("S6", a_schedule_fires_once_too_often, "timer 802 of ada/more #2: the rule has 1 firings"),
    ("S6", a_gap_adds_a_firing, "timer 804 of ada/long #5: the rule has 2 firings"),
    ("S9", nothing_follows_an_occurrence, "timer 800 of ada/stops #1: TRIGGERED"),
    ("S9", a_gap_uses_up_a_firing, "timer 800 of ada/brief #"),
    ("S9", an_occurrence_follows_nothing, "timer 804 of ada/early bird #2: the previous occurrence has not ended"),
]
