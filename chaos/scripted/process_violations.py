"""Change a valid run so that it violates P1 to P5; VIOLATIONS has each change with the expected words."""

from __future__ import annotations

from dataclasses import replace

from chaos.history.changes import DeliveryDeleted, IncidentRaised, TaskDeleted
from chaos.scripted.good_run import FAR_S, B, Violation, W
from chaos.scripted.instance import Race, ScriptedInstance, stopped, taken_signal, waiting
from chaos.scripted.run import LEASE_S, ScriptedRun

KEY = 3000


def race(run: ScriptedRun, *, due_s: float = FAR_S) -> Race:
    """Begin the instance for the violations in this file."""
    return Race.begun(run, 58.0, KEY, due_s=due_s)


def completed(it: Race) -> None:
    """End an instance with the completion of its task, in steps at 58.12 and 58.2."""
    it.approved(58.1, W)


def an_acknowledged_instance_never_begins(run: ScriptedRun) -> None:
    ScriptedInstance(run, KEY, "chaos-race").start(58.0)
    run.commit(58.1, DeliveryDeleted(KEY))


def an_acknowledged_instance_was_never_sent(run: ScriptedRun) -> None:
    ScriptedInstance(run, KEY, "chaos-race").call(58.0, "start")


def an_instance_gets_stuck(run: ScriptedRun) -> None:
    it = race(run)
    done = it.instance.complete(58.1, it.task)
    passes = "3 approve- 3 count+ 3 count-"
    closed = (*it.instance.close_timer(58.12, it.timer), TaskDeleted(it.task))
    it.instance.step(58.12, [taken_signal(done, "completed", 3)], passes, *closed)


def an_instance_has_an_incident(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    run.commit(58.1, IncidentRaised(KEY, "paid", "the correlation key is null"))
    stopped(instance, 58.2)


def a_start_makes_two_instances(run: ScriptedRun) -> None:
    first = waiting(run, 58.0, KEY)
    second = ScriptedInstance(run, KEY + 50, "chaos-message")
    said = first.call(58.1, "start", "unknown")
    run.history.calls[-1] = replace(said, outcome="unknown", instance_key=None, answer=None)
    second.begin(58.11, order=first.name)
    passes = "1 chaos-message+ 2 start+ 2 start- 3 paid+"
    second.step(58.12, [taken_signal(second.key, "begin")], passes)
    stopped(first, 58.2)
    stopped(second, 58.3)


def a_start_is_told_of_another_instance(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    instance.call(58.1, "start", instance_key=2200)
    stopped(instance, 58.2)


def an_instance_is_of_another_process(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    run.history.calls[-1] = replace(run.history.calls[-1], process="chaos-both")
    stopped(instance, 58.2)


def a_signal_is_taken_twice(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    first = instance.signal(58.1, "happened", "paid")
    instance.step(58.12, [taken_signal(first, "happened", 9, "nowhere", stale=True)], "")
    instance.step(58.14, [taken_signal(first, "happened", 9, "nowhere", stale=True)], "")
    stopped(instance, 58.2)


def a_signal_is_taken_and_stays(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    signal = instance.signal(58.1, "happened", "paid")
    instance.version += 1
    run.commit(58.12, *instance.advanced([taken_signal(signal, "happened", 9, "nowhere", stale=True)], ""))
    stopped(instance, 58.2)


def a_signal_vanishes(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    signal = instance.signal(58.1, "happened", "paid")
    run.commit(58.12, DeliveryDeleted(signal))
    stopped(instance, 58.2)


def a_signal_is_never_taken(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    stopped(instance, 58.2)
    instance.signal(58.3, "happened", "paid")


def a_signal_is_taken_that_was_never_sent(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    instance.step(58.12, [taken_signal(KEY + 98, "happened", 9, "nowhere", stale=True)], "")
    stopped(instance, 58.2)


def another_instance_takes_a_signal(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    other = waiting(run, 58.1, KEY + 100)
    signal = instance.signal(58.2, "happened", "paid")
    other.step(58.22, [taken_signal(signal, "happened", 9, "nowhere", stale=True)], "")
    stopped(instance, 58.3)
    stopped(other, 58.4)


def two_engines_advance_one_state(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    for at_s in (58.1, 58.2):
        signal = instance.signal(at_s, "happened", "paid")
        instance.step(at_s + 0.02, [taken_signal(signal, "happened", 9, "nowhere", stale=True)], "")
        instance.version = 1
    instance.version = 2
    stopped(instance, 58.3)


def a_node_is_entered_twice(run: ScriptedRun) -> None:
    it = race(run)
    job = it.instance.next_key()
    done = it.instance.complete(58.1, it.task)
    passes = "3 approve- 3 count+ 3 count- 3 count+ 3 count- 3 charge+"
    closed = (*it.instance.close_timer(58.12, it.timer), TaskDeleted(it.task))
    it.instance.step(58.12, [taken_signal(done, "completed", 3)], passes, *closed, it.instance.job(job, "charge"))
    it.charged(58.2, it.instance.work(58.14, W, job), counted=2)


def a_step_says_that_a_job_was_done(run: ScriptedRun) -> None:
    it = race(run)
    job = it.handed_on(58.1)
    signal = it.instance.signal(58.135, "cancel")
    it.instance.call(58.13, "stop", "SENT")
    # The engine removes the job, although no attempt was completed.
    gone = DeliveryDeleted(job), it.instance.ending(58.14, job, "DELIVERED", None)
    it.instance.step(58.14, [taken_signal(signal, "cancel")], "3 chargex 1 chaos-racex", *gone, outcome="CANCELED")


def a_worker_calls_for_a_service_task_long_after_it_was_taken_away(run: ScriptedRun) -> None:
    it = race(run)
    job = it.canceled_at_work(58.1, W)
    it.instance.attempt(58.14 + LEASE_S + 1, job.timer_key, job)


def a_job_is_made_twice(run: ScriptedRun) -> None:
    it = race(run)
    first, second = it.instance.next_key(), it.instance.next_key()
    done = it.instance.complete(58.1, it.task)
    jobs = (it.instance.job(first, "charge"), it.instance.job(second, "charge"))
    closed = (*it.instance.close_timer(58.12, it.timer), TaskDeleted(it.task))
    it.instance.step(
        58.12, [taken_signal(done, "completed", 3)], "3 approve- 3 count+ 3 count- 3 charge+", *closed, *jobs
    )
    charged = it.instance.work(58.14, W, first)
    again = it.instance.work(58.16, W, second)
    passes = "3 charge- 3 end+ 3 end- 1 chaos-race-"
    signals = [
        taken_signal(charged, "completed", 3, "charge"),
        taken_signal(again, "completed", 3, "charge", stale=True),
    ]
    it.instance.step(58.2, signals, passes, outcome="COMPLETED", counted=1)


def a_script_is_lost(run: ScriptedRun) -> None:
    it = race(run, due_s=58.1)
    it.instance.fire(58.102, B, it.timer)
    it.expired(58.12, counted=0)


def an_instance_completes_without_its_end(run: ScriptedRun) -> None:
    it = race(run, due_s=58.1)
    it.instance.fire(58.102, B, it.timer)
    passes = "3 approvex 3 late+ 3 late- 3 count-late+ 3 count-late-"
    signals = [taken_signal(it.timer, "fired", 3, "late")]
    it.instance.step(58.12, signals, passes, TaskDeleted(it.task), outcome="COMPLETED", counted=1)


def a_task_and_its_timer_both_win(run: ScriptedRun) -> None:
    it = race(run, due_s=58.1)
    it.instance.fire(58.102, B, it.timer)
    done = it.instance.complete(58.104, it.task)
    it.expired(58.12, taken_signal(done, "completed", 3))


def a_token_goes_where_no_flow_leads(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    signal = instance.signal(58.1, "happened", "paid")
    instance.call(58.1, "publish", "REACHED")
    instance.step(58.12, [taken_signal(signal, "happened", 3, "paid")], "3 paid- 3 second+ 3 second- 3 rest+")
    cancel = instance.signal(58.2, "cancel")
    instance.call(58.2, "stop", "SENT")
    instance.step(58.22, [taken_signal(cancel, "cancel")], "3 restx 1 chaos-messagex", outcome="CANCELED")


def a_token_leaves_a_node_that_it_had_not_entered(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    signal = instance.signal(58.1, "cancel")
    instance.call(58.1, "stop", "SENT")
    instance.step(58.12, [taken_signal(signal, "cancel")], "3 paidx 4 restx 1 chaos-messagex", outcome="CANCELED")


def a_token_stays_when_its_instance_ends(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    signal = instance.signal(58.1, "cancel")
    instance.call(58.1, "stop", "SENT")
    instance.step(58.12, [taken_signal(signal, "cancel")], "1 chaos-messagex", outcome="CANCELED")


def an_instance_goes_on_after_its_end(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    stopped(instance, 58.1)
    signal = instance.signal(58.2, "happened", "paid")
    signals = [taken_signal(signal, "happened", 3, "paid", stale=True)]
    instance.step(58.22, signals, "", outcome="CANCELED")


def a_timer_is_made_after_the_end(run: ScriptedRun) -> None:
    it = race(run, due_s=58.1)
    it.instance.fire(58.102, B, it.timer)
    it.expired(58.12)
    run.commit(58.2, it.instance.timer(KEY + 98, FAR_S, "rest"))


def a_task_is_left_after_the_end(run: ScriptedRun) -> None:
    it = race(run, due_s=58.1)
    it.instance.fire(58.102, B, it.timer)
    task = run.tasks.pop(it.task)
    it.expired(58.12)
    run.tasks[it.task] = task


_RACE, _MESSAGE = f"instance {KEY} of bob/chaos-race: ", f"instance {KEY} of bob/chaos-message: "

VIOLATIONS: list[tuple[str, Violation, str]] = [
    (
        "P1 P3",
        an_acknowledged_instance_never_begins,
        "start chaos-race bob/order 3000 of instance 3000, ok: the instance did not",
    ),
    ("P1 P2 P6", an_acknowledged_instance_was_never_sent, "start chaos-race bob/order 3000"),
    ("P1", an_instance_gets_stuck, f"{_RACE}the instance has not ended by"),
    (
        "P1",
        an_instance_has_an_incident,
        f"{_MESSAGE}an incident stopped the instance at paid: the correlation key is null",
    ),
    ("P2", a_start_makes_two_instances, "the call created 2 instances, [3000, 3050]"),
    ("P2", a_start_is_told_of_another_instance, "the answers have ['2200', '3000'], and the call created [3000]"),
    ("P2", an_instance_is_of_another_process, f"{_MESSAGE}no client started the instance"),
    ("P3", a_signal_is_taken_twice, "(happened) to instance 3000: 2 steps took the signal, at 08:00:58.120000"),
    (
        "P3",
        a_signal_is_taken_and_stays,
        "(happened) to instance 3000: a step processed the signal, but did not delete it",
    ),
    ("P3", a_signal_vanishes, "(happened) to instance 3000: the signal was deleted at 08:00:58.120000"),
    ("P3", a_signal_is_never_taken, "(happened) to instance 3000: no step took the signal by 08:01:00"),
    (
        "P3",
        a_signal_is_taken_that_was_never_sent,
        "(happened) to instance 3000: a step took the signal, which was never sent",
    ),
    ("P3", another_instance_takes_a_signal, "(happened) to instance 3000: instance 3100 took the signal"),
    ("P3", two_engines_advance_one_state, f"{_MESSAGE}the instance has the versions [1, 2, 2, 3]"),
    ("P4", a_node_is_entered_twice, f"{_RACE}count was entered 2 times"),
    ("P4", a_job_is_made_twice, f"{_RACE}job of charge was created 2 times"),
    ("S10", a_step_says_that_a_job_was_done, "its instance had not discarded the delivery"),
    ("S10", a_worker_calls_for_a_service_task_long_after_it_was_taken_away, "no worker had claimed the delivery"),
    ("P4", a_script_is_lost, f"{_RACE}the scripts counted 0; the path has 1 (the path 'too late')"),
    ("P4", an_instance_completes_without_its_end, f"{_RACE}the instance has completed, and no token left expired"),
    ("P4", a_task_and_its_timer_both_win, f"{_RACE}the instance took the signals"),
    ("P4", a_token_goes_where_no_flow_leads, f"{_MESSAGE}`second` was entered before `first` was left"),
    (
        "P4",
        a_token_leaves_a_node_that_it_had_not_entered,
        f"{_MESSAGE}token 4 has terminated rest, where the token was not",
    ),
    ("P4", a_token_stays_when_its_instance_ends, f"{_MESSAGE}the instance has ended, and token 3 is still at paid"),
    ("P5", an_instance_goes_on_after_its_end, f"{_MESSAGE}ended at 08:00:58.120000, and continued at 08:00:58.220000"),
    ("P4 P5", a_timer_is_made_after_the_end, "created"),
    (
        "P5",
        a_task_is_left_after_the_end,
        f"{_RACE}ended at 08:00:58.120000, but the database still contains its task",
    ),
]
