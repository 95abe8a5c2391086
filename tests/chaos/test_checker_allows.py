"""Prove that the checker calls nothing broken that is allowed, though it looks like an offence."""

from __future__ import annotations

import pytest

from chaos.checker import judge
from chaos.good_run import FAR_S, A, B, Seed, good, schedule, timer
from chaos.history import Outcome
from chaos.lives import follow
from chaos.offences import a_timer_is_late
from chaos.tape import Tape, at, blank, rig_s
from chaos.windows import deadline_s, windows_of


def a_claim_is_taken_over_that_has_run_out(tape: Tape) -> None:
    tape.ask(40, "bob", timer(701, 51))
    tape.claim(41, B, 701)
    tape.claim(51.1, A + 2, 701)
    tape.fire(51.2, A + 2, 701)


def a_claim_of_a_clock_set_back_is_taken_over(tape: Tape) -> None:
    tape.fault("clock", 44, 45, None, detail={"offset_s": 3_600.0})
    tape.ask(40, "bob", timer(701, 47))
    tape.commit(44.5, tape.rows[701]._replace(claimed_by=B, claimed_until=at(3_654)))
    tape.claim(46, A + 2, 701)
    tape.fire(47.002, A + 2, 701)


def a_clock_that_is_ahead_makes_timers_look_late_and_delays_long(tape: Tape) -> None:
    tape.fault("clock", 44, 45, None, detail={"offset_s": 3_600.0})
    tape.ask(43, "bob", timer(701, 3_000))
    tape.fire(3_644.5, B, 701)  # by a clock that is an hour ahead
    tape.commit(45.005, tape.row_of(45, "bob", timer(703, delay_s=1.0)))
    tape.call(45, "schedule", "bob", timers=[timer(703, delay_s=2.0)])
    tape.call(46, "cancel", "bob", timer_key=703, answer="CANCELED")
    tape.cancel(3_646, 703)


def an_occurrence_is_claimed_soon_after_a_suspension(tape: Tape) -> None:
    tape.ask(40, "bob", timer(701, 51))
    tape.claim(46, B, 701)
    tape.holder(46.1, B, 1, silent=True)
    tape.holder(46.5, B, 1)
    tape.claim(46.6, A + 2, 701)  # it had looked before B was heard again
    tape.holder(46.7, B, 1)
    tape.fire(51.002, A + 2, 701)


def a_schedule_is_planned_by_the_shard_that_claimed_it(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="*/10 * * * * *", name="plan"), 45.005)
    tape.claim(45.1, A, 800)
    tape.commit(45.2, tape.rows[800]._replace(due_date=at(50), claimed_by=None, claimed_until=None))
    tape.cancel(49, 800)
    tape.call(49, "cancel", "ada", "unknown", name="plan")


def an_occurrence_is_moved_and_the_next_is_on_the_grid(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R2/PT2S", name="moved"), 47.002)
    tape.move(45.505, 800, 46.5)
    tape.call(45.5, "reschedule", "ada", name="moved", delay_s=0.9, answer="RESCHEDULED")
    tape.live(A, 800, tape.next_of(800, 802, 49.002))
    tape.live(A, 802)


def a_timer_is_made_due_in_the_past(tape: Tape) -> None:
    tape.ask(49, "bob", timer(701, 20), timer(703, 58))
    tape.fire(49.2, B, 701)
    tape.move(52, 703, 30)
    tape.call(52, "reschedule", "bob", "unknown", timer_key=703)
    tape.fire(52.2, B, 703)


def a_paused_timer_is_left(tape: Tape) -> None:
    tape.commit(45.005, tape.row_of(45, "bob", timer(701, 47)))
    tape.call(45, "schedule", "bob", timers=[timer(701, 47)])
    paused = tape.rows[701]._replace(paused=True)
    tape.commit(46, paused, tape.record(46, 701, "PAUSED", None))


def a_refused_timer_is_not_there(tape: Tape) -> None:
    tape.call(45, "schedule", "bob", timers=[timer(701, 47)], refused=[701])


def a_payload_is_written_another_way(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46, B, 701)
    tape.fire(47.002, B, 701, payload='{"of": 701}')


def a_timer_is_late_in_a_flood_for_want_of_its_shard(tape: Tape) -> None:
    tape.fault("lock", 41, 43, 1.0)
    tape.ask(39, "bob", timer(701, 42.5))
    tape.fire(44.9, B, 701)


def a_lost_shards_timer_goes_the_long_way_until_there_is_another(tape: Tape) -> None:
    tape.holder(42, B + 4, 1)
    tape.holder(42.1, B + 4, None)
    tape.fault("kill", 43, 43, 6.0, victims=[B])
    tape.ask(43.5, "bob", timer(701, 49.5), timer(703, 54))
    tape.holder(44, A + 4, 0)
    tape.fire(53.0, A + 2, 701)
    tape.holder(53.0, B + 2, 1)
    tape.live(B + 2, 703)


FAIR: list[Seed] = [
    a_claim_is_taken_over_that_has_run_out,
    a_claim_of_a_clock_set_back_is_taken_over,
    a_clock_that_is_ahead_makes_timers_look_late_and_delays_long,
    an_occurrence_is_claimed_soon_after_a_suspension,
    a_schedule_is_planned_by_the_shard_that_claimed_it,
    an_occurrence_is_moved_and_the_next_is_on_the_grid,
    a_timer_is_made_due_in_the_past,
    a_paused_timer_is_left,
    a_refused_timer_is_not_there,
    a_payload_is_written_another_way,
    a_timer_is_late_in_a_flood_for_want_of_its_shard,
    a_lost_shards_timer_goes_the_long_way_until_there_is_another,
]


@pytest.mark.parametrize("seed", FAIR, ids=[seed.__name__ for seed in FAIR])
def test_what_is_allowed_turns_nothing_red(seed: Seed) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end())

    assert verdict.status == "valid", [*verdict.reasons, *(it.shown for it in verdict.findings if it.violations)]


def test_a_fault_that_promises_nothing_excuses_lateness_until_all_must_be_back() -> None:
    tape = good()
    tape.fault("lock", 45, 46, None)
    a_timer_is_late(tape)

    assert judge(tape.end()).status == "valid"


@pytest.mark.parametrize(
    ("began_s", "deadline"),
    [
        (9.0, 17.0),  # both are still broken when the timer is ready
        (14.9, 21.9),  # it runs into the second one while it waits for the first to heal
        (16.1, 16.0),  # it must have fired before the second one
    ],
)
def test_what_two_faults_hold_up_has_the_time_of_both(began_s: float, deadline: float) -> None:
    tape = blank()
    tape.fault("lock", 2.0, 3.0, 5.0)  # healed by the time
    tape.fault("store", 8.0, 10.0, 5.0)
    tape.fault("lock", began_s, began_s, 5.0)
    history = tape.end()

    found_s = deadline_s(windows_of(history.faults, history.bounds), rig_s(9.5), allowed_s=1.0)

    assert found_s - rig_s(0.0) == pytest.approx(deadline)


def test_a_cut_that_took_no_shard_away_excuses_from_its_end() -> None:
    tape = good()
    tape.fault("cut", 43, 49, 3.0)
    a_timer_is_late(tape)

    assert judge(tape.end()).status == "valid"


@pytest.mark.parametrize(
    ("outcome", "asked_s", "lies"),
    [("ok", 20.03, False), ("ok", 20.07, True), ("unknown", 20.9, False), ("unknown", 21.1, True)],
)
def test_there_is_no_such_timer_until_its_client_is_told_or_all_must_see_it(
    outcome: Outcome, asked_s: float, lies: bool
) -> None:
    tape = blank()
    tape.commit(20.0, tape.row_of(20.0, "ada", timer(1, FAR_S)))
    tape.call(20.05, "schedule", "ada", outcome, timers=[timer(1, FAR_S)])
    tape.call(asked_s, "cancel", "ada", timer_key=1, answer="UNKNOWN")

    (finding,) = (it for it in judge(tape.end()).findings if it.promise == "S4")

    assert finding.violations == int(lies)


def test_a_schedule_without_a_name_is_known_by_its_key() -> None:
    tape = blank()
    tape.call(1, "schedule", "ada", timers=[timer(100, rule="R/PT1S")])

    assert follow(tape.end()).wanted[100].name == "schedule-100"
