"""Break one promise each in a run that went well; SEEDS says which, and what the report must say of it."""

from __future__ import annotations

from dataclasses import replace

from chaos.good_run import FAR_S, A, B, Seed, payload, schedule, timer
from chaos.history import TimerDeleted
from chaos.tape import Tape, at, rig_s


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


def a_gap_uses_up_a_firing(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R2/PT0.02S", name="brief"), 45.022)
    tape.claim(45.01, A, 800)
    skipped = tape.record(45.07, 800, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    tape.fire(45.07, A, 800, skipped)


def a_gap_adds_a_firing(tape: Tape) -> None:
    schedule(tape, 45, timer(800, rule="R2/PT0.02S", name="long"), 45.022)
    tape.claim(45.01, A, 800)
    skipped = tape.record(45.07, 800, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    tape.fire(45.07, A, 800, skipped, tape.next_of(800, 802, 45.082, number=4))
    tape.live(A, 802, tape.next_of(802, 804, 45.102))
    tape.live(A, 804)


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
    ("S6", a_schedule_fires_once_too_often, "timer 802 of ada/more #2: there are 1 firings in all"),
    ("S6", a_gap_adds_a_firing, "timer 804 of ada/long #5: there are 2 firings in all"),
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
    ("S9", a_gap_uses_up_a_firing, "timer 800 of ada/brief #"),
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
