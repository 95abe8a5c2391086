"""Change a valid run so that it violates promises about times and numbers; VIOLATIONS has each change."""

from __future__ import annotations

from dataclasses import replace

from chaos.scripted.good_run import FAR_S, A, B, Violation, timer
from chaos.scripted.run import ScriptedRun, rig_s


def a_timer_is_late(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 50))
    run.fire(51.5, B, 701)


def a_timer_is_late_long_after_a_fault(run: ScriptedRun) -> None:
    run.schedule(20, "ada", timer(702, 24.5))
    run.fire(28.6, B, 702)


def a_call_never_comes_back(run: ScriptedRun) -> None:
    run.history.calls.append(replace(run.call(45, "cancel", "bob", "unknown", timer_key=701), ended_at=None))


def a_call_takes_too_long(run: ScriptedRun) -> None:
    run.history.calls.append(replace(run.call(20, "cancel", "bob", "unknown", timer_key=701), ended_at=rig_s(36)))


def a_due_timer_is_left_behind(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 50))


def a_pause_ends_too_late(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 51))
    run.pause_until(45, "bob", 701, 50)
    run.resume(52.5, 701, 51)
    run.fire(52.6, B, 701)


def a_pause_does_not_end(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 51))
    run.pause_until(45, "bob", 701, 50)


def a_flood_delays_another_tenant(run: ScriptedRun) -> None:
    run.schedule(39, "bob", timer(701, 42.5))
    run.fire(44.6, B, 701)


def too_many_timers_are_claimed(run: ScriptedRun) -> None:
    run.schedule(45, "bob", *(timer(key, FAR_S) for key in range(701, 707)))
    run.claim(46, B, *range(701, 707))


def a_takeover_takes_too_long(run: ScriptedRun) -> None:
    run.fault("kill", 50, 50, 2.0, victims=[B])
    run.schedule(45, "bob", timer(701, 50.1))
    run.fire(52.7, A + 2, 701)


def a_head_is_lost_for_too_long(run: ScriptedRun) -> None:
    run.fault("head", 46, 137, 5.0, detail={"whole": True})


def a_head_is_lost_for_good(run: ScriptedRun) -> None:
    run.fault("head", 46, 47, 5.0, detail={"whole": False})


def a_stand_by_serves_too_late(run: ScriptedRun) -> None:
    run.fault("head", 46, 48.5, 5.0, detail={"whole": True}, whole_within_s=2.0)


def a_stand_by_serves_too_late_after_up_is_back(run: ScriptedRun) -> None:
    run.fault("head", 46, 52.5, 5.0, detail={"whole": True}, whole_within_s=2.0)
    run.fault("head", 47, 50, 5.0, detail={"whole": True}, name="kill up")


def a_stand_by_serves_too_late_after_postgres_is_back(run: ScriptedRun) -> None:
    run.fault("head", 46, 49.5, 5.0, detail={"whole": True}, whole_within_s=2.0)
    run.fault("store", 45.5, 47, 5.0)


VIOLATIONS: list[tuple[str, Violation, str]] = [
    (
        "L1",
        a_timer_is_late,
        "timer 701 of bob: TRIGGERED by b at 08:00:51.500000, due 08:00:50.000000: the timer fired 1.500 s late",
    ),
    ("L1", a_timer_is_late_long_after_a_fault, "timer 702 of ada: TRIGGERED"),
    ("L2", a_call_never_comes_back, "cancel timer 701, unknown: the call did not return"),
    ("L2", a_call_takes_too_long, "cancel timer 701, unknown: the call took 16.0 s"),
    ("L3", a_due_timer_is_left_behind, "timer 701 of bob: the timer was due 08:00:50.000000, and had not fired"),
    ("L3", a_pause_ends_too_late, "the timer was paused until 08:00:50"),
    ("L3", a_pause_does_not_end, "the timer was paused until 08:00:50"),
    ("L6", a_flood_delays_another_tenant, "timer 701 of bob: TRIGGERED"),
    ("B1", too_many_timers_are_claimed, "6 timers claimed"),
    ("T1", a_takeover_takes_too_long, "the takeover took 2.600 s; the promise is 2.0 s"),
    ("T2", a_head_is_lost_for_too_long, "all shards served again after 91.0 s; the promise is 90.0 s"),
    ("T2", a_head_is_lost_for_good, "all shards served again after 1.0 s"),
    ("T2", a_stand_by_serves_too_late, "all shards served again after 2.5 s; the promise is 2.0 s"),
    ("T2", a_stand_by_serves_too_late_after_up_is_back, "all shards served again after 2.5 s; the promise is 2.0 s"),
    (
        "T2",
        a_stand_by_serves_too_late_after_postgres_is_back,
        "all shards served again after 2.5 s; the promise is 2.0 s",
    ),
]
