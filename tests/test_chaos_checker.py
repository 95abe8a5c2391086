"""Prove that the checker sees each promise broken: a check that can't turn red checks nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.checker import EXERCISED, Verdict, judge
from tests.chaos.history import Asked, History, Outcome, Recorded, TimerDeleted
from tests.chaos.lives import follow
from tests.chaos.orphans import promised_of
from tests.chaos.promises import PROMISES
from tests.chaos.takeover import lags, quantile, recoveries, takeovers
from tests.chaos.tape import LAG_S, Tape, at, blank, rig_s

A, B = 0xA, 0xB  # holders: of the slots that are even, and that are odd
Seed = Callable[[Tape], None]
FAR_S = 600.0


def payload(key: int) -> str:
    """Write what travels with a timer, as a client does."""
    return f'{{"of":{key}}}'


def timer(key: int, due_s: float | None = None, **more: object) -> Asked:
    """Want a timer at a moment."""
    asked = Asked(key, due_date=None if due_s is None else at(due_s), payload=payload(key))
    return replace(asked, **more)  # type: ignore[arg-type]


def schedule(tape: Tape, made_s: float, first: Asked, first_s: float) -> None:
    """Let ada make a schedule; the row gets the first due date, the wish doesn't have one."""
    tape.commit(made_s + 0.005, tape.row_of(made_s, "ada", replace(first, due_date=at(first_s))))
    tape.call(made_s, "schedule", "ada", timers=[first])


def good() -> Tape:
    """Make a run in which everything went well, although a lot happened and much was broken."""
    tape = blank()
    tape.holder(-0.5, A, 0)
    tape.holder(-0.5, B, 1)
    for key in range(1, 11):
        tape.ask(key / 10, ("ada", "bob")[key % 2], timer(key, 2 + key / 2, name=f"order {key // 2}"))
    tape.call(1.5, "schedule", "ada", timers=[timer(2, 3, name="order 1")], resends=2)
    for key in range(1, 11):
        tape.live((A, B)[key % 2], key)
    client_verbs(tape)
    schedules(tape)
    faults(tape)
    tape.ask(50, "ada", timer(900, FAR_S))  # pending at the end
    return tape


def client_verbs(tape: Tape) -> None:
    """Cancel and move, in time and too late."""
    tape.ask(8, "ada", timer(300, 10), timer(302, 9), timer(304, delay_s=1.5))
    tape.ask(8, "bob", timer(303, 9, name="order 99"), outcome="unknown", commits=False)
    tape.call(8.1, "schedule", "bob", "fail", timers=[timer(305, 9)], error="no")
    tape.cancel(8.205, 300)
    tape.call(8.2, "cancel", "ada", timer_key=300, answer="CANCELED")
    tape.move(8.305, 302, 9.5)
    tape.call(8.3, "reschedule", "ada", timer_key=302, delay_s=1.19, answer="RESCHEDULED")
    tape.call(8.4, "cancel", "ada", name="order 99", answer="UNKNOWN")
    tape.live(A, 302)
    tape.live(A, 304)
    tape.call(9.9, "cancel", "ada", timer_key=302, answer="TRIGGERED")


def schedules(tape: Tape) -> None:
    """Let a repeat run to its end, and a cron rule miss two occurrences, and be cancelled by its name."""
    schedule(tape, 10, timer(100, rule="R3/PT1S", name="beat"), 11.002)
    tape.live(A, 100, tape.next_of(100, 102, 12.002))
    tape.live(A, 102, tape.next_of(102, 104, 13.002))
    tape.live(A, 104)
    schedule(tape, 13.5, timer(200, rule="*/2 * * * * *", name="tick"), 14)
    tape.claim(13.6, A, 200)
    skipped = tape.record(18.1, 200, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    tape.fire(18.1, A, 200, skipped, tape.next_of(200, 202, 20, number=4))  # the store was away
    tape.cancel(18.505, 202)
    tape.call(18.5, "cancel", "ada", name="tick", answer="CANCELED")
    tape.commit(19, tape.row_of(19, "default", Asked(400, name="poison", rule="R/often")))
    tape.history.poisoned = frozenset({400})
    tape.claim(19.1, A, 400)
    tape.set_aside(19.2, A, 400)


def faults(tape: Tape) -> None:
    """Break the store, kill a shard, suspend one, and flood the cluster."""
    tape.fault("store", 14, 18, 5.0)
    tape.fault("head", 14.5, 17, 5.0, detail={"whole": True})
    tape.ask(20, "bob", timer(500, 25.2), timer(502, 30.5), timer(503, 31.0))
    tape.claim(24, A, 500)
    tape.fault("kill", 25, 25, 2.0, victims=[A])
    tape.holder(25.5, A, None, ended=True)
    tape.claim(25.9, B, 500)
    tape.fire(26.0, B, 500)
    tape.holder(26.5, A + 2, 0)
    tape.claim(28.6, A + 2, 502)
    tape.fault("freeze", 30, 30, 2.0, victims=[A + 2])
    tape.holder(30.9, A + 2, 0, silent=True)
    tape.claim(31.0, B, 502)
    tape.holder(31.2, A + 2, 0)
    tape.fire(31.3, B, 502)
    tape.fire(31.302, B, 503)  # without a claim
    tape.fault("load", 40, 42, 5.0, detail={"tenant": "herd"})
    tape.ask(39, "bob", timer(601, 41))
    tape.live(B, 601)


def red(verdict: Verdict) -> set[str]:
    """Name the promises that are broken."""
    return {finding.promise for finding in verdict.findings if finding.violations}


def test_a_run_in_which_all_went_well_is_valid() -> None:
    verdict = judge(good().end())

    assert verdict.reasons == []
    assert verdict.status == "valid"
    assert [finding.promise for finding in verdict.findings] == [promise.promise for promise in PROMISES]
    idle = {finding.promise for finding in verdict.findings if not finding.cases}
    assert idle == {"S10"}
    cases = {finding.promise: finding.cases for finding in verdict.findings}
    assert (cases["S3"], cases["L4"], cases["T1"]) == (20, 2 * 25, 2)


# --- One seeded offence each, and the timer that the report must name ---


def a_timer_fires_early(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46, B, 701)
    tape.fire(46.999999, B, 701)


def a_timer_is_given_another_due_date(tape: Tape) -> None:
    tape.commit(45.005, tape.row_of(45, "bob", timer(701, 50)))
    tape.call(45, "schedule", "bob", timers=[timer(701, 51)])
    tape.live(B, 701)


def a_delay_is_cut_short(tape: Tape) -> None:
    tape.commit(45.005, tape.row_of(45, "bob", timer(701, delay_s=2.0)))
    tape.call(45, "schedule", "bob", timers=[timer(701, delay_s=2.1)])
    tape.live(B, 701)


def a_row_vanishes(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.commit(46, TimerDeleted(701))


def an_acknowledged_timer_was_never_written(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47), commits=False)


def an_acknowledged_timer_is_gone_after_a_crash(tape: Tape) -> None:
    tape.call(13.9, "schedule", "bob", timers=[timer(701, 47)])


def a_timer_fires_twice(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46.5, B, 701)
    again = tape.record(47.5, 701, "TRIGGERED", B)
    tape.fire(47.002, B, 701)
    tape.commit(47.5, again)


def a_cancelled_timer_fires(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.call(46, "cancel", "bob", "unknown", timer_key=701)
    tape.claim(46.5, B, 701)
    fired = tape.record(47.002, 701, "TRIGGERED", B)
    tape.cancel(46.9, 701)
    tape.commit(47.002, fired)


def a_client_is_told_that_a_timer_is_cancelled(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "cancel", "bob", timer_key=701, answer="CANCELED")


def a_client_is_told_before_it_is_committed(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "cancel", "bob", timer_key=701, answer="CANCELED")
    tape.cancel(47, 701)


def a_client_is_told_that_a_timer_has_fired(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "cancel", "bob", timer_key=701, answer="TRIGGERED")


def a_client_is_told_that_there_is_no_such_timer(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S, name="order 701"))
    tape.call(46, "cancel", "bob", name="order 701", answer="UNKNOWN")


def a_client_is_told_that_a_timer_is_moved(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "reschedule", "bob", timer_key=701, delay_s=700.0, answer="RESCHEDULED")


def a_timer_is_moved_too_near(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.move(46.005, 701, FAR_S + 1)
    tape.call(46, "reschedule", "bob", timer_key=701, delay_s=700.0, answer="RESCHEDULED")


def a_moved_timer_fires_at_its_old_date(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 50))
    tape.move(46.005, 701, 48)
    tape.call(46, "reschedule", "bob", timer_key=701, delay_s=1.99, answer="RESCHEDULED")
    tape.claim(48, B, 701)
    tape.fire(50.002, B, 701, due_date=at(50))


def a_refused_timer_is_there(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S), outcome="fail")


def an_occurrence_is_left_out(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R5/PT1S", name="gap"), 46.002)
    tape.live(A, 800, tape.next_of(800, 802, 48.002, number=3))
    tape.cancel(47, 802)
    tape.call(47, "cancel", "ada", "unknown", name="gap")


def occurrences_come_in_another_order(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R5/PT1S", name="gap"), 46.002)
    tape.live(A, 800, tape.next_of(800, 802, 48.002, number=3), tape.next_of(800, 804, 47.002, number=2))
    for key in (802, 804):
        tape.cancel(46.2, key)
    tape.call(46, "cancel", "ada", "unknown", name="gap")


def an_occurrence_is_off_the_grid(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R2/PT1S", name="off"), 46.002)
    tape.live(A, 800, tape.next_of(800, 802, 47.502))
    tape.live(A, 802)


def a_cron_rule_begins_off_the_grid(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="*/5 * * * * *", name="off"), 46)
    tape.cancel(45.5, 800)
    tape.call(45.5, "cancel", "ada", "unknown", name="off")


def a_schedule_begins_late(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R1/PT1S", name="late"), 46.5)
    tape.live(A, 800)


def a_schedule_fires_once_too_often(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R1/PT1S", name="more"), 46.002)
    tape.live(A, 800, tape.next_of(800, 802, 47.002))
    tape.live(A, 802)


def a_key_makes_a_second_timer(tape: Tape) -> None:
    asked = timer(701, 47)
    tape.ask(45, "bob", asked)
    tape.live(B, 701)
    tape.call(48, "schedule", "bob", timers=[asked], resends=1)
    tape.commit(48.005, tape.row_of(48, "bob", timer(701, FAR_S)))


def a_timer_comes_from_nowhere(tape: Tape) -> None:
    tape.commit(45.005, tape.row_of(45, "bob", timer(701, FAR_S)))


def a_claim_is_taken_over_while_it_stands(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46.0, B, 701)
    tape.claim(46.5, A + 2, 701)
    tape.fire(47.002, A + 2, 701)


def a_timer_is_fired_over_a_claim(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46.0, B, 701)
    tape.fire(47.002, A + 2, 701)


def a_claim_is_taken_over_long_after_a_suspension(tape: Tape) -> None:
    tape.holder(45.0, B, 1, silent=True)
    tape.holder(46.0, B, 1)
    tape.ask(46, "bob", timer(701, 58))
    tape.claim(56.0, B, 701)
    tape.claim(57.0, A + 2, 701)
    tape.fire(58.002, A + 2, 701)


def a_timer_is_moved_without_a_record(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.commit(46, tape.rows[701]._replace(due_date=at(FAR_S)))


def a_record_has_no_row(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S), outcome="unknown")
    record = tape.record(46, 701, "PAUSED", None, timer_key=703)
    tape.commit(46, record)


def a_timer_ends_and_its_row_stays(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "cancel", "bob", "unknown", timer_key=701)
    tape.commit(46.005, tape.record(46.005, 701, "CANCELED", None))


def a_timer_is_cancelled_twice(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "cancel", "bob", "unknown", timer_key=701)
    record = tape.record(46.005, 701, "CANCELED", None)
    tape.commit(46.005, TimerDeleted(701), record, record)


def a_timer_is_resumed_without_a_record(tape: Tape) -> None:
    tape.commit(46, tape.rows[400]._replace(due_date=at(FAR_S), paused=False))


def a_record_tells_of_a_move_that_was_not_made(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.call(46, "reschedule", "bob", "unknown", timer_key=701)
    tape.commit(46.005, tape.record(46.005, 701, "RESCHEDULED", None, detail='{"due_date": "2031-01-01T00:00:00Z"}'))


def a_row_becomes_another(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S))
    tape.commit(46, tape.rows[701]._replace(occurrence=2))


def nothing_follows_an_occurrence(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R3/PT1S", name="stops"), 46.002)
    tape.live(A, 800)


def an_occurrence_follows_nothing(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R2/PT1S", name="early bird"), 46.002)
    following = tape.next_of(800, 802, 47.002)
    again = tape.next_of(800, 804, 47.002)
    tape.live(A, 800, following)
    tape.call(46.3, "cancel", "ada", "unknown", name="early bird")
    tape.cancel(46.3, 802)
    tape.commit(46.4, again)
    tape.live(A, 804)


def a_timer_is_late(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 50))
    tape.fire(51.5, B, 701)


def a_timer_is_late_long_after_a_fault(tape: Tape) -> None:
    tape.ask(20, "ada", timer(702, 24.5))
    tape.fire(28.6, B, 702)


def a_call_never_comes_back(tape: Tape) -> None:
    tape.history.calls.append(replace(tape.call(45, "cancel", "bob", "unknown", timer_key=701), ended_at=None))


def a_call_takes_too_long(tape: Tape) -> None:
    tape.history.calls.append(replace(tape.call(20, "cancel", "bob", "unknown", timer_key=701), ended_at=rig_s(36)))


def a_due_timer_is_left_behind(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 50))


def a_poison_timer_fires(tape: Tape) -> None:
    tape.commit(45, tape.row_of(45, "default", timer(701, 46)))
    tape.history.poisoned |= {701}
    tape.live(B, 701)


def a_good_timer_is_set_aside(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46, B, 701)
    tape.set_aside(47, B, 701)


def a_flood_delays_another_tenant(tape: Tape) -> None:
    tape.ask(39, "bob", timer(701, 42.5))
    tape.fire(44.6, B, 701)


def a_record_has_another_tenant(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47, name="order 701"))
    tape.claim(46, B, 701)
    tape.fire(47.002, B, 701, tenant_id="ada")


def a_record_has_another_payload(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, 47))
    tape.claim(46, B, 701)
    tape.fire(47.002, B, 701, payload=payload(702))


def a_row_has_another_name(tape: Tape) -> None:
    tape.commit(45.005, tape.row_of(45, "bob", timer(701, FAR_S, name="order 701")))
    tape.call(45, "schedule", "bob", timers=[timer(701, FAR_S, name="order 702")])


def a_timer_of_another_tenant_is_cancelled(tape: Tape) -> None:
    tape.ask(45, "bob", timer(701, FAR_S, name="order 701"))
    tape.call(46, "cancel", "ada", "unknown", name="order 701")
    tape.cancel(46.005, 701)


def too_many_timers_are_claimed(tape: Tape) -> None:
    tape.ask(45, "bob", *(timer(key, FAR_S) for key in range(701, 707)))
    tape.claim(46, B, *range(701, 707))


def a_takeover_takes_too_long(tape: Tape) -> None:
    tape.fault("kill", 50, 50, 2.0, victims=[B])
    tape.ask(45, "bob", timer(701, 50.1))
    tape.fire(52.7, A + 2, 701)


def a_head_is_lost_for_too_long(tape: Tape) -> None:
    tape.fault("head", 46, 137, 5.0, detail={"whole": True})


def a_head_is_lost_for_good(tape: Tape) -> None:
    tape.fault("head", 46, 47, 5.0, detail={"whole": False})


SEEDS: list[tuple[str, Seed, str]] = [
    ("S1", a_timer_fires_early, "timer 701 of bob: TRIGGERED by b at 08:00:46.999999"),
    ("S1", a_timer_is_given_another_due_date, "timer 701 of bob: due 2030-01-31 08:00:50+00:00"),
    ("S1", a_delay_is_cut_short, "timer 701 of bob: due 08:00:47.003000, not before 08:00:47.1"),
    ("S2", a_row_vanishes, "timer 701 of bob: deleted without a record"),
    ("S2", an_acknowledged_timer_was_never_written, "timer 701 of bob: acknowledged"),
    ("S2 D1", an_acknowledged_timer_is_gone_after_a_crash, "timer 701 of bob: acknowledged"),
    ("S3", a_timer_fires_twice, "timer 701 of bob: TRIGGERED by b at 08:00:47.500000"),
    ("S4", a_cancelled_timer_fires, "timer 701 of bob: TRIGGERED"),
    ("S4", a_client_is_told_that_a_timer_is_cancelled, "cancel timer 701, CANCELED"),
    ("S4", a_client_is_told_before_it_is_committed, "cancel timer 701, CANCELED"),
    ("S4", a_client_is_told_that_a_timer_has_fired, "cancel timer 701, TRIGGERED"),
    ("S4", a_client_is_told_that_there_is_no_such_timer, "cancel bob/order 701, UNKNOWN"),
    ("S4", a_client_is_told_that_a_timer_is_moved, "reschedule timer 701, RESCHEDULED"),
    ("S4", a_timer_is_moved_too_near, "reschedule timer 701, RESCHEDULED"),
    ("S4", a_moved_timer_fires_at_its_old_date, "timer 701 of bob: TRIGGERED"),
    ("S4", a_refused_timer_is_there, "timer 701 of bob: refused"),
    ("S5", an_occurrence_is_left_out, "timer 802 of ada/gap #3: made in the turn of #2"),
    ("S5", occurrences_come_in_another_order, "timer 802 of ada/gap #3: made in the turn of #2"),
    ("S6", an_occurrence_is_off_the_grid, "timer 802 of ada/off #2: due 08:00:47.502000, by the oracle 08:00:47.002"),
    ("S6", a_cron_rule_begins_off_the_grid, "timer 800 of ada/off #1: due 08:00:46.000000, by the oracle never"),
    ("S6", a_schedule_begins_late, "timer 800 of ada/late #1: due 08:00:46.500000"),
    ("S6", a_schedule_fires_once_too_often, "timer 802 of ada/more #2: there are 1 in all"),
    ("S7", a_key_makes_a_second_timer, "timer 701 of bob: made 2 times"),
    ("S7", a_timer_comes_from_nowhere, "timer 701 of bob: nobody asked for it"),
    ("S8", a_claim_is_taken_over_while_it_stands, "timer 701 of bob: claimed by c"),
    ("S8", a_timer_is_fired_over_a_claim, "timer 701 of bob: TRIGGERED by c"),
    ("S8", a_claim_is_taken_over_long_after_a_suspension, "timer 701 of bob: claimed by c"),
    ("S9", a_timer_is_moved_without_a_record, "timer 701 of bob: moved to"),
    ("S9", a_record_has_no_row, "timer 703 of bob: PAUSED"),
    ("S9", a_timer_ends_and_its_row_stays, "timer 701 of bob: CANCELED"),
    ("S9", a_timer_is_cancelled_twice, "timer 701 of bob: CANCELED"),
    ("S9", a_timer_is_resumed_without_a_record, "timer 400 of default/poison #1: resumed"),
    ("S9", a_record_tells_of_a_move_that_was_not_made, "timer 701 of bob: RESCHEDULED"),
    ("S9", a_row_becomes_another, "timer 701 of bob: became"),
    ("S9", nothing_follows_an_occurrence, "timer 800 of ada/stops #1: TRIGGERED"),
    ("S9", an_occurrence_follows_nothing, "timer 804 of ada/early bird #2: made although none before it ended"),
    ("L1", a_timer_is_late, "timer 701 of bob: TRIGGERED by b at 08:00:51.500000, due 08:00:50.000000: 1.500 s late"),
    ("L1", a_timer_is_late_long_after_a_fault, "timer 702 of ada: TRIGGERED"),
    ("L2", a_call_never_comes_back, "cancel timer 701, unknown: it never came back"),
    ("L2", a_call_takes_too_long, "cancel timer 701, unknown: it took 16.0 s"),
    ("L3", a_due_timer_is_left_behind, "timer 701 of bob: due 08:00:50.000000, not fired"),
    ("L5", a_poison_timer_fires, "timer 701 of default: TRIGGERED"),
    ("L5", a_good_timer_is_set_aside, "timer 701 of bob: PAUSED by b"),
    ("L6", a_flood_delays_another_tenant, "timer 701 of bob: TRIGGERED"),
    ("I1", a_record_has_another_tenant, "timer 701 of ada/order 701 #1: TRIGGERED"),
    ("I1", a_record_has_another_payload, 'payload {"of":702}, asked for with {"of":701}'),
    ("I1", a_row_has_another_name, "timer 701 of bob/order 701 #1: asked for by bob as order 702"),
    ("I1", a_timer_of_another_tenant_is_cancelled, "timer 701 of bob/order 701 #1: CANCELED"),
    ("B1", too_many_timers_are_claimed, "6 timers claimed"),
    ("T1", a_takeover_takes_too_long, "taken over in 2.600 s, promised 2.0 s"),
    ("T2", a_head_is_lost_for_too_long, "whole again after 91.0 s, promised 90.0 s"),
    ("T2", a_head_is_lost_for_good, "whole again after 1.0 s"),
]


@pytest.mark.parametrize(("broken", "seed", "told"), SEEDS, ids=[f"{it[0]} {it[1].__name__}" for it in SEEDS])
def test_a_broken_promise_turns_red_alone_and_names_the_offender(broken: str, seed: Seed, told: str) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end())

    assert verdict.status == "invalid"
    assert red(verdict) == set(broken.split()), [finding.shown for finding in verdict.findings if finding.violations]
    for finding in verdict.findings:
        if finding.violations:
            assert finding.violations == 1 or seed is occurrences_come_in_another_order
            assert told in finding.shown[0]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda h: h.reads.append(h.reads[-1]), "second reader: read"),
        (lambda h: h.reads.remove(h.reads[10]), "first reader: never read"),
        (lambda h: h.reads.insert(0, h.reads.pop(2)), "first reader: read"),
    ],
    ids=["one twice", "one never", "two the other way round"],
)
def test_a_reader_that_gets_records_otherwise_than_once_in_order_breaks_l4(
    spoil: Callable[[History], object], told: str
) -> None:
    history = good().end()
    spoil(history)

    verdict = judge(history)

    assert red(verdict) == {"L4"}
    assert told in next(finding.shown[0] for finding in verdict.findings if finding.violations)


def test_an_occurrence_that_fires_under_two_keys_breaks_s3() -> None:
    tape = good()
    schedule(tape, 45, timer(800, rule="R2/PT1S", name="double"), 46.002)
    tape.live(A, 800, tape.next_of(800, 802, 47.002), tape.next_of(800, 804, 47.002))
    tape.live(A, 802)
    tape.live(A, 804)

    finding = next(it for it in judge(tape.end()).findings if it.promise == "S3")

    assert finding.violations == 1
    assert "timer 804 of ada/double #2" in finding.shown[0]


@pytest.mark.parametrize(("fired_s", "broken"), [(52.5, set[str]()), (58.0, {"S1"})])
def test_a_record_that_was_written_while_the_clock_was_set_back_is_not_early(fired_s: float, broken: set[str]) -> None:
    tape = good()
    tape.ask(45, "bob", timer(701, 70))
    tape.fault("clock", 50, 52, 5.0, detail={"offset_s": 3600.0})
    tape.claim(49, B, 701)
    tape.fire(fired_s, B, 701)

    assert red(judge(tape.end())) & {"S1"} == broken


def test_a_timer_that_waited_for_as_long_as_the_clock_was_set_back_is_no_measure_of_a_takeover() -> None:
    tape = good()
    tape.fault("clock", 40, 41, 5.0, detail={"offset_s": -600.0})
    tape.fault("kill", 48, 48, 2.0, victims=[B])
    for key, fired_s in ((701, 48.6), (703, 48.5 + 600)):
        tape.ask(48.2, "bob", timer(key, 48.5))
        tape.fire(fired_s, A + 2, key)

    assert [it.timers for it in takeovers(tape.end())][-1] == 1


@pytest.mark.parametrize(
    ("least", "why"),
    [
        ({"kills_min": 2}, "only 1 of 2 kills"),
        ({"freezes_min": 2}, "only 1 of 2 freezes"),
        ({"cuts_min": 1}, "only 0 of 1 cuts"),
        ({"fires_min": 21}, "only 20 of 21 firings"),
    ],
)
def test_a_run_that_broke_or_fired_too_little_is_unknown(least: dict[str, int], why: str) -> None:
    history = good().end()
    history.bounds = replace(history.bounds, **least)

    verdict = judge(history)

    assert (verdict.status, verdict.reasons) == ("unknown", [why])


def test_each_promise_that_is_built_has_a_seed() -> None:
    seeded = {promise for broken, _, _ in SEEDS for promise in broken.split()} | {"L4"}

    assert seeded == {promise.promise for promise in PROMISES if promise.check}


# --- What is no offence, though it looks like one ---


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


def test_a_fault_that_is_not_to_disturb_anybody_excuses_nothing() -> None:
    tape = good()
    tape.fault("lock", 49, 52, 5.0, disturbs=False)
    a_timer_is_late(tape)

    assert red(judge(tape.end())) == {"L1"}


def test_a_fault_that_promises_nothing_excuses_lateness_until_all_must_be_back() -> None:
    tape = good()
    tape.fault("lock", 45, 46, None)
    a_timer_is_late(tape)

    assert judge(tape.end()).status == "valid"


@pytest.mark.parametrize(("key", "due_s"), [(704, 51.0), (701, 54.0)], ids=["another's slot", "kept again"])
def test_only_a_lost_shards_timers_go_the_long_way_and_only_until_there_is_another(key: int, due_s: float) -> None:
    tape = good()
    tape.fault("kill", 43, 43, 6.0, victims=[B])
    tape.ask(42, "bob", timer(key, due_s))
    tape.holder(53.0, B + 2, 1)
    tape.fire(due_s + 2.5, A + 2, key)

    assert red(judge(tape.end())) == {"L1"}


def test_a_cut_that_took_no_shard_away_excuses_from_its_end() -> None:
    tape = good()
    tape.fault("cut", 43, 49, 3.0)
    a_timer_is_late(tape)

    assert judge(tape.end()).status == "valid"


def test_an_occurrence_that_fires_twice_under_its_key_breaks_s3_alone() -> None:
    tape = good()
    schedule(tape, 45, timer(800, rule="R1/PT1S", name="double"), 46.002)
    tape.claim(45.5, A, 800)
    again = tape.record(46.5, 800, "TRIGGERED", A)
    tape.fire(46.004, A, 800)
    tape.commit(46.5, again)

    assert red(judge(tape.end())) == {"S3"}


def test_a_lost_shards_timer_may_not_be_later_than_was_promised() -> None:
    tape = good()
    tape.fault("kill", 43, 43, 3.0, victims=[B])
    tape.ask(42, "bob", timer(701, 48))
    tape.fire(52.5, A + 2, 701)

    assert red(judge(tape.end())) == {"L1", "T1"}


@pytest.mark.parametrize(("slow", "violations"), [(1, 0), (2, 2)])
def test_one_takeover_of_a_hundred_may_take_longer(slow: int, violations: int) -> None:
    tape = blank(ends_s=2_100)
    tape.holder(-0.5, B, 1)
    for number in range(100):
        at_s, took_s = 20.0 * number, 2.1 if number < slow else 1.0
        tape.fault("freeze", at_s, at_s, 2.0, victims=[B])
        tape.ask(at_s, "bob", timer(2 * number + 1, at_s + 0.1))
        tape.fire(at_s + 0.1 + took_s, B, 2 * number + 1)

    finding = next(it for it in judge(tape.end()).findings if it.promise == "T1")

    assert (finding.cases, finding.violations) == (100, violations)


def test_a_takeover_is_of_the_timers_of_the_lost_shard_alone() -> None:
    tape = good()
    tape.fault("cut", 25.05, 25.1, 2.0, victims=[B])  # hits other slots, so it explains nothing of the kill

    assert [(it.fault.kind, it.timers) for it in takeovers(tape.end())] == [("kill", 1), ("freeze", 1), ("cut", 1)]


# --- What nobody can know ---


def test_a_run_in_which_nothing_fired_is_unknown() -> None:
    verdict = judge(blank().end())

    assert verdict.status == "unknown"
    assert verdict.reasons[0] == "nothing fired"
    assert {f"{promise} has no case" for promise in EXERCISED} == set(verdict.reasons[1:])


def test_a_run_without_a_crash_of_the_store_leaves_d1_unknown() -> None:
    history = good().end()
    history.faults = [replace(fault, kind="lock") if fault.kind == "store" else fault for fault in history.faults]

    verdict = judge(history)

    assert (verdict.status, verdict.reasons) == ("unknown", ["D1 has no case"])
    assert judge(history, exercised={"S1"}).status == "valid"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda h: h.pending.pop(), "incomplete: timer 900 is pending only in the commits (1 such)"),
        (lambda h: h.pending.append(h.pending[0]._replace(timer_key=5)), "timer 5 is pending only in the table"),
        (lambda h: h.pending.append(h.pending.pop()._replace(due_date=at(1_000))), "900 is pending in another way"),
        (lambda h: h.commits.append(h.commits[-1]), "out of order"),
        (lambda h: h.commits.append(_later(h, TimerDeleted(7))), "torn: timer 7 was deleted while it was not there"),
        (lambda h: h.reads.append(h.reads[-1]._replace(xid=999_999)), "(999999, "),
        (lambda h: h.commits.__setitem__(-2, h.commits[-2]._replace(xid=3)), "in the commit of xid 3"),
    ],
    ids=["a row less", "a row more", "another date", "a commit twice", "a row before", "a stranger", "another's xid"],
)  # fmt: skip
def test_a_recording_that_contradicts_itself_is_unknown(spoil: Callable[[History], object], why: str) -> None:
    history = good().end()
    spoil(history)

    verdict = judge(history, exercised=())

    assert why in " ".join(verdict.reasons)
    assert verdict.status in {"unknown", "invalid"}


def test_a_hole_in_the_recording_alone_is_unknown() -> None:
    history = good().end()
    history.pending.pop()

    assert judge(history).status == "unknown"


# --- How late, and for how long ---


def test_a_takeover_is_the_worst_wait_of_the_lost_shards_timers() -> None:
    found = takeovers(good().end())

    assert [(it.fault.kind, it.timers) for it in found] == [("kill", 1), ("freeze", 1)]
    assert [it.seconds for it in found] == pytest.approx([0.8, 0.8])
    assert [it.bound_s for it in found] == [2.0, 2.0]


def test_a_timer_that_another_fault_held_up_is_left_out_of_a_takeover() -> None:
    tape = good()
    tape.fault("lock", 25.1, 25.9, 1.0)

    assert [it.timers for it in takeovers(tape.end())] == [0, 1]


@pytest.mark.parametrize(("began_s", "bound_s"), [(7.9, 2.0), (8.1, 13.0), (12.0, 13.0), (16.9, 13.0), (17.1, 2.0)])
def test_a_takeover_has_more_time_where_nobody_led_who_could_have_made_it(began_s: float, bound_s: float) -> None:
    tape = blank()
    tape.holder(-0.5, B, 1)
    tape.fault("freeze", 10.0, 15.0, 5.0, disturbs=False, leaderless=True)
    tape.fault("kill", began_s, began_s, 2.0, victims=[A])
    tape.fault("kill", began_s, began_s, None, victims=[A])
    history = tape.end()

    assert list(promised_of(follow(history)).values())[1:] == [bound_s, None]


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


@pytest.mark.parametrize(("began_s", "bound_s"), [(7.9, 2.0), (8.1, 13.0), (12.0, 13.0), (14.9, 13.0), (15.1, 2.0)])
def test_a_takeover_has_more_time_where_no_shard_was_left_to_take_over(began_s: float, bound_s: float) -> None:
    tape = blank()
    tape.fault("kill", began_s, began_s, 2.0, victims=[A])
    for at_s, holder, shard in ((-0.5, A, 0), (-0.4, B, 1), (9.0, A, None), (10.0, B, None), (15.0, 0xC, 0)):
        tape.holder(at_s, holder, shard)

    assert promised_of(follow(tape.end())) == {1: bound_s}


@pytest.mark.parametrize("led", [True, False])
def test_only_the_lost_shards_timers_may_be_later_where_nobody_led(led: bool) -> None:
    tape = blank()
    tape.holder(-0.5, A, 0)
    tape.holder(-0.5, B, 1)
    tape.ask(1, "ada", timer(1, 6), timer(2, 6))
    tape.fault("freeze", 5.0, 9.0, None, disturbs=False, leaderless=not led)
    tape.fault("kill", 5.5, 5.5, 2.0, victims=[A])
    tape.fire(14.0, B, 1)
    tape.holder(14.1, B, None)
    tape.fire(14.2, B, 2)
    history = tape.end()

    verdict = judge(history)

    late = [line for finding in verdict.findings if finding.promise == "L1" for line in finding.shown]
    assert len(late) == (2 if led else 1), late
    assert "timer 1 " in late[0]
    assert [(it.timers, it.bound_s) for it in takeovers(history) if it.fault.victims] == [(1, 2.0 if led else 13.0)]


def test_a_timer_that_waits_for_a_takeover_without_a_leader_is_left_out_of_the_next_one() -> None:
    tape = blank()
    tape.holder(-0.5, A, 0)
    tape.ask(1, "ada", timer(2, 12))
    tape.fault("freeze", 4.0, 6.0, None, disturbs=False, leaderless=True)
    tape.fault("kill", 5.0, 5.0, 2.0, victims=[A])
    tape.fault("kill", 11.0, 11.0, 2.0, victims=[A])
    tape.fire(16.0, B, 2)

    assert [it.timers for it in takeovers(tape.end())] == [0, 0]


def test_recovery_is_told_from_when_the_store_was_back() -> None:
    (recovery,) = (it for it in recoveries(good().end()) if it.fault.kind == "store")

    assert recovery.first_s == pytest.approx(0.1)
    assert recovery.normal_s == pytest.approx(0.1)


def test_recovery_is_not_told_of_what_ends_while_something_else_is_broken() -> None:
    tape = good()
    assert [it.fault.kind for it in recoveries(tape.end())] == ["store"], "the head was back while the store was away"
    tape.fault("lock", 17.5, 18.05, 5.0)

    assert not recoveries(tape.end())


def test_lags_are_in_commit_order_and_count_from_when_a_timer_was_known() -> None:
    tape = blank()
    tape.ask(10, "ada", timer(2, 5))
    tape.fire(10.105, A, 2)

    ((fired_s, lag_s),) = lags(tape.end())

    assert fired_s == rig_s(10.105)
    assert lag_s == pytest.approx(0.1, abs=1e-6)


def test_a_timer_in_time_has_the_lag_of_its_record() -> None:
    fired_s, lag_s = lags(good().end())[0]

    assert fired_s == rig_s(2.5 + LAG_S)
    assert lag_s == pytest.approx(LAG_S, abs=1e-6)


def test_a_quantile_is_a_value_of_the_list() -> None:
    values = [float(n) for n in range(100, 0, -1)]

    assert [quantile(values, q) for q in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]


def test_a_schedule_without_a_name_is_known_by_its_key() -> None:
    tape = blank()
    tape.call(1, "schedule", "ada", timers=[timer(100, rule="R/PT1S")])

    assert follow(tape.end()).wanted[100].name == "schedule-100"


def _later(history: History, *changes: Recorded | TimerDeleted) -> object:
    last = history.commits[-1]
    return last._replace(lsn=last.lsn + 1, xid=last.xid + 1, changes=changes)
