"""Change a valid run so that it violates P6; VIOLATIONS has each change with the expected words of the report."""

from __future__ import annotations

from chaos.scripted.good_run import B, Violation
from chaos.scripted.instance import stopped, taken_signal, waiting
from chaos.scripted.process_violations import KEY, completed, race
from chaos.scripted.run import ScriptedRun


def a_client_is_told_that_a_task_is_completed(run: ScriptedRun) -> None:
    it = race(run, due_s=58.1)
    it.instance.call(58.05, "complete", "COMPLETED", task_key=it.task)
    it.instance.fire(58.102, B, it.timer)
    it.expired(58.12)


def a_client_is_told_that_there_is_no_such_task(run: ScriptedRun) -> None:
    it = race(run)
    it.instance.call(58.05, "complete", "NOT_FOUND", task_key=it.task)
    completed(it)


def a_client_is_told_that_its_message_came(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    instance.call(58.1, "publish", "REACHED")
    stopped(instance, 58.2)


def a_client_is_told_that_an_instance_is_cancelled(run: ScriptedRun) -> None:
    it = race(run)
    it.instance.call(58.05, "stop", "SENT")
    completed(it)


def a_client_is_told_that_an_instance_has_ended(run: ScriptedRun) -> None:
    it = race(run)
    it.instance.call(58.05, "stop", "NOT_FOUND")
    completed(it)


def an_instance_is_cancelled_without_a_request(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    signal = instance.signal(58.1, "cancel")
    instance.step(58.12, [taken_signal(signal, "cancel")], "3 paidx 1 chaos-messagex", outcome="CANCELED")


def a_completion_is_stale_though_its_token_waits(run: ScriptedRun) -> None:
    it = race(run, due_s=58.2)
    done = it.instance.complete(58.1, it.task)
    it.instance.step(58.12, [taken_signal(done, "completed", 3, stale=True)], "")
    it.instance.fire(58.202, B, it.timer)
    it.expired(58.22)


_RACE, _MESSAGE = f"instance {KEY} of bob/chaos-race: ", f"instance {KEY} of bob/chaos-message: "

VIOLATIONS: list[tuple[str, Violation, str]] = [
    ("P6", a_client_is_told_that_a_task_is_completed, "complete chaos-race bob/order 3000 of instance 3000, COMPLETED"),
    ("P6", a_client_is_told_that_there_is_no_such_task, "of instance 3000, NOT_FOUND: the answer is false"),
    ("P6", a_client_is_told_that_its_message_came, "publish chaos-message bob/order 3000 of instance 3000, REACHED"),
    ("P6", a_client_is_told_that_an_instance_is_cancelled, "stop chaos-race bob/order 3000 of instance 3000, SENT"),
    ("P6", a_client_is_told_that_an_instance_has_ended, "stop chaos-race bob/order 3000 of instance 3000, NOT_FOUND"),
    (
        "P6",
        an_instance_is_cancelled_without_a_request,
        f"{_MESSAGE}the instance was cancelled, and no client requested this",
    ),
    (
        "P6",
        a_completion_is_stale_though_its_token_waits,
        f"{_RACE}a signal completed was stale, and approve waits for this signal",
    ),
]
