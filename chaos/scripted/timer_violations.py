"""Change a valid run so that it violates promises about timers; VIOLATIONS has each change."""

from __future__ import annotations

from chaos.history.changes import TimerDeleted
from chaos.scripted.good_run import FAR_S, A, B, Violation, payload, timer
from chaos.scripted.run import ScriptedRun, at


def a_timer_fires_early(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46, B, 701)
    run.fire(46.999999, B, 701)


def a_timer_is_given_another_due_date(run: ScriptedRun) -> None:
    run.commit(45.005, run.row_of(45, "bob", timer(701, 50)))
    run.call(45, "schedule", "bob", timers=[timer(701, 51)])
    run.fire_in_time(B, 701)


def a_delay_is_cut_short(run: ScriptedRun) -> None:
    run.commit(45.005, run.row_of(45, "bob", timer(701, delay_s=2.0)))
    run.call(45, "schedule", "bob", timers=[timer(701, delay_s=2.1)])
    run.fire_in_time(B, 701)


def a_row_vanishes(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.commit(46, TimerDeleted(701))


def an_acknowledged_timer_was_never_written(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47), commits=False)


def an_acknowledged_timer_is_gone_after_a_crash(run: ScriptedRun) -> None:
    run.call(13.9, "schedule", "bob", timers=[timer(701, 47)])


def a_timer_fires_twice(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46.5, B, 701)
    again = run.record(47.5, 701, "TRIGGERED", B)
    run.fire(47.002, B, 701)
    run.commit(47.5, again)


def a_cancelled_timer_fires(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.call(46, "cancel", "bob", "unknown", timer_key=701)
    run.claim(46.5, B, 701)
    fired = run.record(47.002, 701, "TRIGGERED", B)
    run.cancel(46.9, 701)
    run.commit(47.002, fired)


def a_client_is_told_that_a_timer_is_cancelled(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "cancel", "bob", timer_key=701, answer="CANCELED")


def a_client_is_told_before_it_is_committed(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "cancel", "bob", timer_key=701, answer="CANCELED")
    run.cancel(47, 701)


def a_client_is_told_that_a_timer_has_fired(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "cancel", "bob", timer_key=701, answer="TRIGGERED")


def a_client_is_told_that_there_is_no_such_timer(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S, name="order 701"))
    run.call(46, "cancel", "bob", name="order 701", answer="UNKNOWN")


def a_client_is_told_that_a_timer_is_moved(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "reschedule", "bob", timer_key=701, delay_s=700.0, answer="RESCHEDULED")


def a_timer_is_moved_too_near(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.move(46.005, 701, FAR_S + 1)
    run.call(46, "reschedule", "bob", timer_key=701, delay_s=700.0, answer="RESCHEDULED")


def a_moved_timer_fires_at_its_old_date(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 50))
    run.move(46.005, 701, 48)
    run.call(46, "reschedule", "bob", timer_key=701, delay_s=1.99, answer="RESCHEDULED")
    run.claim(48, B, 701)
    run.fire(50.002, B, 701, due_date=at(50))


def a_refused_timer_is_there(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S), outcome="fail")


def a_key_makes_a_second_timer(run: ScriptedRun) -> None:
    requests = timer(701, 47)
    run.schedule(45, "bob", requests)
    run.fire_in_time(B, 701)
    run.call(48, "schedule", "bob", timers=[requests], resends=1)
    run.commit(48.005, run.row_of(48, "bob", timer(701, FAR_S)))


def a_timer_is_made_without_a_request(run: ScriptedRun) -> None:
    run.commit(45.005, run.row_of(45, "bob", timer(701, FAR_S)))


def a_claim_is_taken_over_while_it_stands(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46.0, B, 701)
    run.claim(46.5, A + 2, 701)
    run.fire(47.002, A + 2, 701)


def a_timer_is_fired_over_a_claim(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46.0, B, 701)
    run.fire(47.002, A + 2, 701)


def a_claim_is_taken_over_long_after_a_suspension(run: ScriptedRun) -> None:
    run.holder(45.0, B, 1, silent=True)
    run.holder(46.0, B, 1)
    run.schedule(46, "bob", timer(701, 58))
    run.claim(56.0, B, 701)
    run.claim(57.0, A + 2, 701)
    run.fire(58.002, A + 2, 701)


def a_timer_is_moved_without_a_record(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.commit(46, run.rows[701]._replace(due_date=at(FAR_S)))


def a_record_has_no_row(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S), outcome="unknown")
    record = run.record(46, 701, "PAUSED", None, timer_key=703)
    run.commit(46, record)


def a_timer_ends_and_its_row_stays(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "cancel", "bob", "unknown", timer_key=701)
    run.commit(46.005, run.record(46.005, 701, "CANCELED", None))


def a_timer_is_cancelled_twice(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "cancel", "bob", "unknown", timer_key=701)
    record = run.record(46.005, 701, "CANCELED", None)
    run.commit(46.005, TimerDeleted(701), record, record)


def a_timer_is_resumed_without_a_record(run: ScriptedRun) -> None:
    run.commit(46, run.rows[400]._replace(due_date=at(FAR_S), paused=False))


def a_record_tells_of_a_move_that_was_not_made(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.call(46, "reschedule", "bob", "unknown", timer_key=701)
    run.commit(46.005, run.record(46.005, 701, "RESCHEDULED", None, detail='{"due_date": "2031-01-01T00:00:00Z"}'))


def a_row_becomes_another(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S))
    run.commit(46, run.rows[701]._replace(occurrence=2))


def a_poison_timer_fires(run: ScriptedRun) -> None:
    run.commit(45, run.row_of(45, "default", timer(701, 46)))
    run.history.poisoned |= {701}
    run.fire_in_time(B, 701)


def a_good_timer_is_set_aside(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46, B, 701)
    run.pause(47, B, 701)


def a_record_has_another_tenant(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47, name="order 701"))
    run.claim(46, B, 701)
    run.fire(47.002, B, 701, tenant_id="ada")


def a_record_has_another_payload(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, 47))
    run.claim(46, B, 701)
    run.fire(47.002, B, 701, payload=payload(702))


def a_row_has_another_name(run: ScriptedRun) -> None:
    run.commit(45.005, run.row_of(45, "bob", timer(701, FAR_S, name="order 701")))
    run.call(45, "schedule", "bob", timers=[timer(701, FAR_S, name="order 702")])


def a_timer_of_another_tenant_is_cancelled(run: ScriptedRun) -> None:
    run.schedule(45, "bob", timer(701, FAR_S, name="order 701"))
    run.call(46, "cancel", "ada", "unknown", name="order 701")
    run.cancel(46.005, 701)


def a_pause_ends_too_early(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 51))
    run.pause_until(45, "bob", 701, 50)
    run.resume(49.9, 701, 51)
    run.fire_in_time(B, 701)


def a_paused_timer_fires(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 46))
    run.pause_until(45, "bob", 701, 50)
    run.commit(46.01, TimerDeleted(701), run.record(46.01, 701, "TRIGGERED", B)._replace(due_date=at(46)))


def a_client_is_told_that_a_timer_is_paused(run: ScriptedRun) -> None:
    run.schedule(40, "bob", timer(701, 51))
    run.call(45, "pause", "bob", timer_key=701, delay_s=5.0, answer="PAUSED")
    run.fire_in_time(B, 701)


VIOLATIONS: list[tuple[str, Violation, str]] = [
    ("S1", a_timer_fires_early, "timer 701 of bob: TRIGGERED by b at 08:00:46.999999"),
    ("S1", a_timer_is_given_another_due_date, "timer 701 of bob: the due date is 2030-01-31 08:00:50+00:00"),
    (
        "S1",
        a_delay_is_cut_short,
        "timer 701 of bob: the due date is 08:00:47.003000, and must not be before 08:00:47.1",
    ),
    ("S2", a_row_vanishes, "timer 701 of bob: the row was deleted without a record"),
    ("S2", an_acknowledged_timer_was_never_written, "timer 701 of bob: the timer was acknowledged"),
    ("S2 D1", an_acknowledged_timer_is_gone_after_a_crash, "timer 701 of bob: the timer was acknowledged"),
    ("S3", a_timer_fires_twice, "timer 701 of bob: TRIGGERED by b at 08:00:47.500000"),
    ("S4", a_cancelled_timer_fires, "timer 701 of bob: TRIGGERED"),
    ("S4", a_client_is_told_that_a_timer_is_cancelled, "cancel timer 701, CANCELED"),
    ("S4", a_client_is_told_before_it_is_committed, "cancel timer 701, CANCELED"),
    ("S4", a_client_is_told_that_a_timer_has_fired, "cancel timer 701, TRIGGERED"),
    ("S4", a_client_is_told_that_there_is_no_such_timer, "cancel bob/order 701, UNKNOWN"),
    ("S1", a_pause_ends_too_early, "RESUMED at 08:00:49.900000"),
    ("S1", a_paused_timer_fires, "the timer was paused until 08:00:50"),
    ("S4", a_client_is_told_that_a_timer_is_paused, "pause timer 701, PAUSED"),
    ("S4", a_client_is_told_that_a_timer_is_moved, "reschedule timer 701, RESCHEDULED"),
    ("S4", a_timer_is_moved_too_near, "reschedule timer 701, RESCHEDULED"),
    ("S4", a_moved_timer_fires_at_its_old_date, "timer 701 of bob: TRIGGERED"),
    ("S4", a_refused_timer_is_there, "timer 701 of bob: the timer was refused"),
    ("S7", a_key_makes_a_second_timer, "timer 701 of bob: the timer was inserted 2 times"),
    ("S7", a_timer_is_made_without_a_request, "timer 701 of bob: no client requested this change"),
    ("S8", a_claim_is_taken_over_while_it_stands, "timer 701 of bob: claimed by c"),
    ("S8", a_timer_is_fired_over_a_claim, "timer 701 of bob: TRIGGERED by c"),
    ("S8", a_claim_is_taken_over_long_after_a_suspension, "timer 701 of bob: claimed by c"),
    ("S9", a_timer_is_moved_without_a_record, "timer 701 of bob: moved to"),
    ("S9", a_record_has_no_row, "timer 703 of bob: PAUSED"),
    ("S9", a_timer_ends_and_its_row_stays, "timer 701 of bob: CANCELED"),
    ("S9", a_timer_is_cancelled_twice, "timer 701 of bob: CANCELED"),
    ("S9", a_timer_is_resumed_without_a_record, "timer 400 of default/poison #1: resumed"),
    ("S9", a_record_tells_of_a_move_that_was_not_made, "timer 701 of bob: RESCHEDULED"),
    ("S9", a_row_becomes_another, "timer 701 of bob: the row changed to"),
    ("L5", a_poison_timer_fires, "timer 701 of default: TRIGGERED"),
    ("L5", a_good_timer_is_set_aside, "timer 701 of bob: PAUSED by b"),
    ("I1", a_record_has_another_tenant, "timer 701 of ada/order 701 #1: TRIGGERED"),
    ("I1", a_record_has_another_payload, 'the payload is {"of":702}, the request had {"of":701}'),
    (
        "I1",
        a_row_has_another_name,
        "timer 701 of bob/order 701 #1: the request had the tenant bob and the name order 702",
    ),
    ("I1", a_timer_of_another_tenant_is_cancelled, "timer 701 of bob/order 701 #1: CANCELED"),
]
