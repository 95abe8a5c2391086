"""Break P1 to P6 in a run that went well, in every way; SEEDS says what the report must say of it."""

from __future__ import annotations

from dataclasses import replace

from chaos.good_run import FAR_S, B, Seed, W
from chaos.history import DeliveryDeleted, IncidentRaised, TaskDeleted
from chaos.process_tape import Player, Race, stopped, told, waiting
from chaos.tape import LEASE_S, Tape

KEY = 3000


def race(tape: Tape, *, due_s: float = FAR_S) -> Race:
    """Begin an instance of which all that is said below goes wrong."""
    return Race.begun(tape, 58.0, KEY, due_s=due_s)


def completed(it: Race) -> None:
    """End it by its task, in steps at 58.12 and 58.2."""
    it.approved(58.1, W)


def an_acknowledged_instance_never_begins(tape: Tape) -> None:
    Player(tape, KEY, "chaos-race").start(58.0)
    tape.commit(58.1, DeliveryDeleted(KEY))


def an_acknowledged_instance_was_never_sent(tape: Tape) -> None:
    Player(tape, KEY, "chaos-race").call(58.0, "start")


def an_instance_gets_stuck(tape: Tape) -> None:
    it = race(tape)
    done = it.player.complete(58.1, it.task)
    passes = "3 approve- 3 count+ 3 count-"
    closed = (*it.player.close_timer(58.12, it.timer), TaskDeleted(it.task))
    it.player.step(58.12, [told(done, "completed", 3)], passes, *closed)


def an_instance_has_an_incident(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    tape.commit(58.1, IncidentRaised(KEY, "paid", "the correlation key is null"))
    stopped(player, 58.2)


def a_start_makes_two_instances(tape: Tape) -> None:
    first = waiting(tape, 58.0, KEY)
    second = Player(tape, KEY + 50, "chaos-message")
    said = first.call(58.1, "start", "unknown")
    tape.history.calls[-1] = replace(said, outcome="unknown", instance_key=None, answer=None)
    second.begin(58.11, order=first.name)
    passes = "1 chaos-message+ 2 start+ 2 start- 3 paid+"
    second.step(58.12, [told(second.key, "begin")], passes)
    stopped(first, 58.2)
    stopped(second, 58.3)


def a_start_is_told_of_another_instance(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    player.call(58.1, "start", instance_key=2200)
    stopped(player, 58.2)


def an_instance_is_of_another_process(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    tape.history.calls[-1] = replace(tape.history.calls[-1], process="chaos-both")
    stopped(player, 58.2)


def a_signal_is_taken_twice(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    first = player.signal(58.1, "happened", "paid")
    player.step(58.12, [told(first, "happened", 9, "nowhere", stale=True)], "")
    player.step(58.14, [told(first, "happened", 9, "nowhere", stale=True)], "")
    stopped(player, 58.2)


def a_signal_is_taken_and_stays(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signal = player.signal(58.1, "happened", "paid")
    player.version += 1
    tape.commit(58.12, *player.advanced([told(signal, "happened", 9, "nowhere", stale=True)], ""))
    stopped(player, 58.2)


def a_signal_vanishes(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signal = player.signal(58.1, "happened", "paid")
    tape.commit(58.12, DeliveryDeleted(signal))
    stopped(player, 58.2)


def a_signal_is_never_taken(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    stopped(player, 58.2)
    player.signal(58.3, "happened", "paid")


def a_signal_comes_from_nowhere(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    player.step(58.12, [told(KEY + 98, "happened", 9, "nowhere", stale=True)], "")
    stopped(player, 58.2)


def another_instance_takes_a_signal(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    other = waiting(tape, 58.1, KEY + 100)
    signal = player.signal(58.2, "happened", "paid")
    other.step(58.22, [told(signal, "happened", 9, "nowhere", stale=True)], "")
    stopped(player, 58.3)
    stopped(other, 58.4)


def two_engines_advance_one_state(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    for at_s in (58.1, 58.2):
        signal = player.signal(at_s, "happened", "paid")
        player.step(at_s + 0.02, [told(signal, "happened", 9, "nowhere", stale=True)], "")
        player.version = 1
    player.version = 2
    stopped(player, 58.3)


def a_node_is_entered_twice(tape: Tape) -> None:
    it = race(tape)
    job = it.player.next_key()
    done = it.player.complete(58.1, it.task)
    passes = "3 approve- 3 count+ 3 count- 3 count+ 3 count- 3 charge+"
    closed = (*it.player.close_timer(58.12, it.timer), TaskDeleted(it.task))
    it.player.step(58.12, [told(done, "completed", 3)], passes, *closed, it.player.job(job, "charge"))
    it.charged(58.2, it.player.work(58.14, W, job), counted=2)


def a_step_says_that_a_job_was_done(tape: Tape) -> None:
    it = race(tape)
    job = it.handed_on(58.1)
    signal = it.player.signal(58.135, "cancel")
    it.player.call(58.13, "stop", "SENT")
    # An engine takes the job away, and nobody has done it.
    gone = DeliveryDeleted(job), it.player.ending(58.14, job, "DELIVERED", None)
    it.player.step(58.14, [told(signal, "cancel")], "3 chargex 1 chaos-racex", *gone, outcome="CANCELED")


def a_worker_calls_for_a_service_task_long_after_it_was_taken_away(tape: Tape) -> None:
    it = race(tape)
    job = it.canceled_at_work(58.1, W)
    it.player.attempt(58.14 + LEASE_S + 1, job.timer_key, job)


def a_job_is_made_twice(tape: Tape) -> None:
    it = race(tape)
    first, second = it.player.next_key(), it.player.next_key()
    done = it.player.complete(58.1, it.task)
    jobs = (it.player.job(first, "charge"), it.player.job(second, "charge"))
    closed = (*it.player.close_timer(58.12, it.timer), TaskDeleted(it.task))
    it.player.step(58.12, [told(done, "completed", 3)], "3 approve- 3 count+ 3 count- 3 charge+", *closed, *jobs)
    charged = it.player.work(58.14, W, first)
    again = it.player.work(58.16, W, second)
    passes = "3 charge- 3 end+ 3 end- 1 chaos-race-"
    signals = [told(charged, "completed", 3, "charge"), told(again, "completed", 3, "charge", stale=True)]
    it.player.step(58.2, signals, passes, outcome="COMPLETED", counted=1)


def a_script_is_lost(tape: Tape) -> None:
    it = race(tape, due_s=58.1)
    it.player.fire(58.102, B, it.timer)
    it.expired(58.12, counted=0)


def an_instance_completes_without_its_end(tape: Tape) -> None:
    it = race(tape, due_s=58.1)
    it.player.fire(58.102, B, it.timer)
    passes = "3 approvex 3 late+ 3 late- 3 count-late+ 3 count-late-"
    signals = [told(it.timer, "fired", 3, "late")]
    it.player.step(58.12, signals, passes, TaskDeleted(it.task), outcome="COMPLETED", counted=1)


def a_task_and_its_timer_both_win(tape: Tape) -> None:
    it = race(tape, due_s=58.1)
    it.player.fire(58.102, B, it.timer)
    done = it.player.complete(58.104, it.task)
    it.expired(58.12, told(done, "completed", 3))


def a_token_goes_where_no_flow_leads(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signal = player.signal(58.1, "happened", "paid")
    player.call(58.1, "publish", "REACHED")
    player.step(58.12, [told(signal, "happened", 3, "paid")], "3 paid- 3 second+ 3 second- 3 rest+")
    cancel = player.signal(58.2, "cancel")
    player.call(58.2, "stop", "SENT")
    player.step(58.22, [told(cancel, "cancel")], "3 restx 1 chaos-messagex", outcome="CANCELED")


def a_token_leaves_what_it_had_not_entered(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signal = player.signal(58.1, "cancel")
    player.call(58.1, "stop", "SENT")
    player.step(58.12, [told(signal, "cancel")], "3 paidx 4 restx 1 chaos-messagex", outcome="CANCELED")


def a_token_stays_when_its_instance_ends(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signal = player.signal(58.1, "cancel")
    player.call(58.1, "stop", "SENT")
    player.step(58.12, [told(signal, "cancel")], "1 chaos-messagex", outcome="CANCELED")


def an_instance_goes_on_after_its_end(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    stopped(player, 58.1)
    signal = player.signal(58.2, "happened", "paid")
    signals = [told(signal, "happened", 3, "paid", stale=True)]
    player.step(58.22, signals, "", outcome="CANCELED")


def a_timer_is_made_after_the_end(tape: Tape) -> None:
    it = race(tape, due_s=58.1)
    it.player.fire(58.102, B, it.timer)
    it.expired(58.12)
    tape.commit(58.2, it.player.timer(KEY + 98, FAR_S, "rest"))


def a_task_is_left_after_the_end(tape: Tape) -> None:
    it = race(tape, due_s=58.1)
    it.player.fire(58.102, B, it.timer)
    task = tape.tasks.pop(it.task)
    it.expired(58.12)
    tape.tasks[it.task] = task


def a_client_is_told_that_a_task_is_completed(tape: Tape) -> None:
    it = race(tape, due_s=58.1)
    it.player.call(58.05, "complete", "COMPLETED", task_key=it.task)
    it.player.fire(58.102, B, it.timer)
    it.expired(58.12)


def a_client_is_told_that_there_is_no_such_task(tape: Tape) -> None:
    it = race(tape)
    it.player.call(58.05, "complete", "NOT_FOUND", task_key=it.task)
    completed(it)


def a_client_is_told_that_its_message_came(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    player.call(58.1, "publish", "REACHED")
    stopped(player, 58.2)


def a_client_is_told_that_an_instance_is_cancelled(tape: Tape) -> None:
    it = race(tape)
    it.player.call(58.05, "stop", "SENT")
    completed(it)


def a_client_is_told_that_an_instance_has_ended(tape: Tape) -> None:
    it = race(tape)
    it.player.call(58.05, "stop", "NOT_FOUND")
    completed(it)


def an_instance_is_cancelled_by_nobody(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signal = player.signal(58.1, "cancel")
    player.step(58.12, [told(signal, "cancel")], "3 paidx 1 chaos-messagex", outcome="CANCELED")


def a_completion_is_stale_though_its_token_waits(tape: Tape) -> None:
    it = race(tape, due_s=58.2)
    done = it.player.complete(58.1, it.task)
    it.player.step(58.12, [told(done, "completed", 3, stale=True)], "")
    it.player.fire(58.202, B, it.timer)
    it.expired(58.22)


_RACE, _MESSAGE = f"instance {KEY} of bob/chaos-race: ", f"instance {KEY} of bob/chaos-message: "

SEEDS: list[tuple[str, Seed, str]] = [
    ("P1 P3", an_acknowledged_instance_never_begins, "start chaos-race bob/order 3000 of instance 3000, ok: it never"),
    ("P1 P2 P6", an_acknowledged_instance_was_never_sent, "start chaos-race bob/order 3000"),
    ("P1", an_instance_gets_stuck, f"{_RACE}it has not ended by"),
    ("P1", an_instance_has_an_incident, f"{_MESSAGE}it stopped at paid: the correlation key is null"),
    ("P2", a_start_makes_two_instances, "it made 2 instances, [3000, 3050]"),
    ("P2", a_start_is_told_of_another_instance, "told ['2200', '3000'], and it made [3000]"),
    ("P2", an_instance_is_of_another_process, f"{_MESSAGE}nobody started it"),
    ("P3", a_signal_is_taken_twice, "(happened) to instance 3000: it was taken 2 times, at 08:00:58.120000"),
    ("P3", a_signal_is_taken_and_stays, "(happened) to instance 3000: it was taken, and is still there"),
    ("P3", a_signal_vanishes, "(happened) to instance 3000: it was gone at 08:00:58.120000"),
    ("P3", a_signal_is_never_taken, "(happened) to instance 3000: not taken by 08:01:00"),
    ("P3", a_signal_comes_from_nowhere, "(happened) to instance 3000: it was taken, and nobody sent it"),
    ("P3", another_instance_takes_a_signal, "(happened) to instance 3000: instance 3100 took it"),
    ("P3", two_engines_advance_one_state, f"{_MESSAGE}it went through the versions [1, 2, 2, 3]"),
    ("P4", a_node_is_entered_twice, f"{_RACE}count was entered 2 times"),
    ("P4", a_job_is_made_twice, f"{_RACE}job of charge was made 2 times"),
    ("S10", a_step_says_that_a_job_was_done, "its instance has not discarded it"),
    ("S10", a_worker_calls_for_a_service_task_long_after_it_was_taken_away, "no worker had it in hand"),
    ("P4", a_script_is_lost, f"{_RACE}its scripts counted 0, on this way 1 (the way 'too late')"),
    ("P4", an_instance_completes_without_its_end, f"{_RACE}it has completed, and never left expired"),
    ("P4", a_task_and_its_timer_both_win, f"{_RACE}went on by"),
    ("P4", a_token_goes_where_no_flow_leads, f"{_MESSAGE}second was entered before first was left"),
    ("P4", a_token_leaves_what_it_had_not_entered, f"{_MESSAGE}token 4 has terminated rest, where it was not"),
    ("P4", a_token_stays_when_its_instance_ends, f"{_MESSAGE}it has ended, and token 3 is still at paid"),
    ("P5", an_instance_goes_on_after_its_end, f"{_MESSAGE}ended at 08:00:58.120000, and went on at 08:00:58.220000"),
    ("P4 P5", a_timer_is_made_after_the_end, "made"),
    ("P5", a_task_is_left_after_the_end, f"{_RACE}ended at 08:00:58.120000, and left task"),
    ("P6", a_client_is_told_that_a_task_is_completed, "complete chaos-race bob/order 3000 of instance 3000, COMPLETED"),
    ("P6", a_client_is_told_that_there_is_no_such_task, "of instance 3000, NOT_FOUND: it is not so"),
    ("P6", a_client_is_told_that_its_message_came, "publish chaos-message bob/order 3000 of instance 3000, REACHED"),
    ("P6", a_client_is_told_that_an_instance_is_cancelled, "stop chaos-race bob/order 3000 of instance 3000, SENT"),
    ("P6", a_client_is_told_that_an_instance_has_ended, "stop chaos-race bob/order 3000 of instance 3000, NOT_FOUND"),
    ("P6", an_instance_is_cancelled_by_nobody, f"{_MESSAGE}it was cancelled, and nobody asked for that"),
    ("P6", a_completion_is_stale_though_its_token_waits, f"{_RACE}a completed was stale, and approve waits for it"),
]
