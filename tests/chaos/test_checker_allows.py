"""Prove that the checker accepts legal histories that look like violations."""

from __future__ import annotations

import pytest

from chaos.checker import judge
from chaos.fault_windows import deadline_s, windows_of
from chaos.history.calls import Outcome
from chaos.run_index import index_run
from chaos.scripted.good_run import FAR_S, A, B, Violation, good, schedule, timer
from chaos.scripted.lateness_violations import a_timer_is_late
from chaos.scripted.run import ScriptedRun, at, blank, rig_s


def a_claim_is_taken_over_that_has_run_out(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 51))
    run.claim(41, B, 701)
    run.claim(51.1, A + 2, 701)
    run.fire(51.2, A + 2, 701)


def a_claim_of_a_clock_set_back_is_taken_over(run: ScriptedRun) -> None:
    run.fault("clock", 44, 45, None, detail={"offset_s": 3_600.0})
    run.schedule(40, "bob", timer(701, 47))
    run.commit(44.5, run.rows[701]._replace(claimed_by=B, claimed_until=at(3_654)))
    run.claim(46, A + 2, 701)
    run.fire(47.002, A + 2, 701)


def a_clock_that_is_ahead_makes_timers_look_late_and_delays_long(run: ScriptedRun) -> None:
    run.fault("clock", 44, 45, None, detail={"offset_s": 3_600.0})
    run.schedule(43, "bob", timer(701, 3_000))
    run.fire(3_644.5, B, 701)  # the time of a clock that is an hour ahead
    run.commit(45.005, run.row_of(45, "bob", timer(703, delay_s=1.0)))
    run.call(45, "schedule", "bob", timers=[timer(703, delay_s=2.0)])
    run.call(46, "cancel", "bob", timer_key=703, answer="CANCELED")
    run.cancel(3_646, 703)


def a_head_is_lost_while_up_is_down(run: ScriptedRun) -> None:
    run.fault("head", 46, 52.5, 5.0, detail={"whole": True}, whole_within_s=2.0)
    run.fault("head", 47, 52, 5.0, detail={"whole": True}, name="kill up")


def a_head_is_lost_while_postgres_is_down(run: ScriptedRun) -> None:
    run.fault("head", 46, 48.5, 5.0, detail={"whole": True}, whole_within_s=2.0)
    run.fault("store", 45.5, 47, 5.0)


def an_occurrence_is_claimed_soon_after_a_suspension(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 51))
    run.claim(46, B, 701)
    run.holder(46.1, B, 1, silent=True)
    run.holder(46.5, B, 1)
    run.claim(46.6, A + 2, 701)  # B returned its lease after the snapshot of the claim
    run.holder(46.7, B, 1)
    run.fire(51.002, A + 2, 701)


def a_schedule_is_planned_by_the_shard_that_claimed_it(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="*/10 * * * * *", name="plan"), 45.005)
    run.claim(45.1, A, 800)
    run.commit(45.2, run.rows[800]._replace(due_date=at(50), claimed_by=None, claimed_until=None))
    run.cancel(49, 800)
    run.call(49, "cancel", "ada", "unknown", name="plan")


def an_occurrence_is_moved_and_the_next_is_on_the_grid(run: ScriptedRun) -> None:
    schedule(run, 45, timer(800, rule="R2/PT2S", name="moved"), 47.002)
    run.move(45.505, 800, 46.5)
    run.call(45.5, "reschedule", "ada", name="moved", delay_s=0.9, answer="RESCHEDULED")
    run.fire_in_time(A, 800, run.next_of(800, 802, 49.002))
    run.fire_in_time(A, 802)


def a_timer_is_made_due_in_the_past(run: ScriptedRun) -> None:
    run.schedule(49, "bob", timer(701, 20), timer(703, 58))
    run.fire(49.2, B, 701)
    run.move(52, 703, 30)
    run.call(52, "reschedule", "bob", "unknown", timer_key=703)
    run.fire(52.2, B, 703)


def a_paused_timer_is_left(run: ScriptedRun) -> None:
    run.commit(45.005, run.row_of(45, "bob", timer(701, 47)))
    run.call(45, "schedule", "bob", timers=[timer(701, 47)])
    paused = run.rows[701]._replace(paused=True)
    run.commit(46, paused, run.record(46, 701, "PAUSED", None))
    run.call(46, "pause", "bob", timer_key=701, answer="PAUSED")


def a_refused_timer_is_not_there(run: ScriptedRun) -> None:
    run.call(45, "schedule", "bob", timers=[timer(701, 47)], refused=[701])


def a_payload_is_written_another_way(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46, B, 701)
    run.fire(47.002, B, 701, payload='{"of": 701}')


def a_timer_is_late_in_a_flood_behind_a_lock(run: ScriptedRun) -> None:
    run.fault("lock", 41, 43, 1.0)
    run.schedule(39, "bob", timer(701, 42.5))
    run.fire(44.9, B, 701)


def a_lost_shards_timer_waits_for_a_takeover(run: ScriptedRun) -> None:
    run.holder(42, B + 4, 1)
    run.holder(42.1, B + 4, None)
    run.fault("kill", 43, 43, 6.0, victims=[B])
    run.schedule(43.5, "bob", timer(701, 49.5), timer(703, 54))
    run.holder(44, A + 4, 0)
    run.fire(53.0, A + 2, 701)
    run.holder(53.0, B + 2, 1)
    run.fire_in_time(B + 2, 703)


def a_pause_ends_in_time_and_the_timer_fires(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 49), timer(703, 49), timer(705, 53))
    for key, until_s in ((701, 50), (703, 47), (705, 47)):
        run.pause_until(45, "bob", key, until_s)
    run.pause_until(46, "bob", 703, 50)  # only the last pause is relevant
    run.call(46.5, "cancel", "bob", timer_key=705, answer="CANCELED")
    run.cancel(46.505, 705)
    for key in (701, 703):
        run.resume(50.4, key, 49)
        run.fire(50.6, B, key)


FAIR: list[Violation] = [
    a_pause_ends_in_time_and_the_timer_fires,
    a_claim_is_taken_over_that_has_run_out,
    a_claim_of_a_clock_set_back_is_taken_over,
    a_clock_that_is_ahead_makes_timers_look_late_and_delays_long,
    a_head_is_lost_while_up_is_down,
    a_head_is_lost_while_postgres_is_down,
    an_occurrence_is_claimed_soon_after_a_suspension,
    a_schedule_is_planned_by_the_shard_that_claimed_it,
    an_occurrence_is_moved_and_the_next_is_on_the_grid,
    a_timer_is_made_due_in_the_past,
    a_paused_timer_is_left,
    a_refused_timer_is_not_there,
    a_payload_is_written_another_way,
    a_timer_is_late_in_a_flood_behind_a_lock,
    a_lost_shards_timer_waits_for_a_takeover,
]


@pytest.mark.parametrize("violation", FAIR, ids=[violation.__name__ for violation in FAIR])
def test_a_legal_history_is_valid(violation: Violation) -> None:
    run = good()
    violation(run)

    verdict = judge(run.end())

    assert verdict.status == "valid", [*verdict.reasons, *(it.shown for it in verdict.findings if it.violations)]


def test_a_fault_without_a_promise_excuses_lateness_until_the_recovery() -> None:
    run = good()
    run.fault("lock", 45, 46, None)
    a_timer_is_late(run)

    assert judge(run.end()).status == "valid"


@pytest.mark.parametrize(
    ("began_s", "deadline"),
    [
        (9.0, 17.0),  # Both faults are active when the timer becomes ready.
        (14.9, 21.9),  # the second fault begins while the timer waits for the recovery from the first fault
        (16.1, 16.0),  # the timer must have fired before the second fault
    ],
)
def test_a_timer_that_two_faults_delay_may_be_late_by_the_time_of_both_faults(began_s: float, deadline: float) -> None:
    run = blank()
    run.fault("lock", 2.0, 3.0, 5.0)  # this fault ends before a client makes the timer due
    run.fault("store", 8.0, 10.0, 5.0)
    run.fault("lock", began_s, began_s, 5.0)
    history = run.end()

    found_s = deadline_s(windows_of(history.faults, history.bounds), rig_s(9.5), allowed_s=1.0)

    assert found_s - rig_s(0.0) == pytest.approx(deadline)


def test_a_cut_without_victims_excuses_lateness_from_its_end() -> None:
    run = good()
    run.fault("cut", 43, 49, 3.0)
    a_timer_is_late(run)

    assert judge(run.end()).status == "valid"


@pytest.mark.parametrize(
    ("outcome", "asked_s", "lies"),
    [("ok", 20.03, False), ("ok", 20.07, True), ("unknown", 20.9, False), ("unknown", 21.1, True)],
)
def test_a_timer_may_be_unknown_until_its_answer_or_until_it_is_visible(
    outcome: Outcome, asked_s: float, lies: bool
) -> None:
    run = blank()
    run.commit(20.0, run.row_of(20.0, "ada", timer(1, FAR_S)))
    run.call(20.05, "schedule", "ada", outcome, timers=[timer(1, FAR_S)])
    run.call(asked_s, "cancel", "ada", timer_key=1, answer="UNKNOWN")

    (finding,) = (it for it in judge(run.end()).findings if it.promise == "S4")

    assert finding.violations == int(lies)


def test_a_schedule_without_a_name_is_known_by_its_key() -> None:
    run = blank()
    run.call(1, "schedule", "ada", timers=[timer(100, rule="R/PT1S")])

    assert index_run(run.end()).requests[100].name == "schedule-100"
