"""Prove that the checker finds a violation of each promise about processes, and accepts legal histories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checker import EXERCISED, PROCESSES, judge
from chaos.history.changes import DeliveryDeleted
from chaos.scripted.answer_violations import VIOLATIONS as ANSWER_VIOLATIONS
from chaos.scripted.good_run import FAR_S, Violation, W, good, red
from chaos.scripted.instance import ENGINE, Race, ScriptedInstance, taken_signal, waiting
from chaos.scripted.process_violations import KEY, race
from chaos.scripted.process_violations import VIOLATIONS as PROCESS_VIOLATIONS
from chaos.scripted.run import ScriptedRun, blank

VIOLATIONS = [*PROCESS_VIOLATIONS, *ANSWER_VIOLATIONS]


@pytest.mark.parametrize(("broken", "violation", "told"), VIOLATIONS, ids=[it[1].__name__ for it in VIOLATIONS])
def test_each_violation_breaks_only_its_promise_and_is_named(broken: str, violation: Violation, told: str) -> None:
    run = good()
    violation(run)

    verdict = judge(run.end())

    assert verdict.status == "invalid"
    found = {finding.promise: finding for finding in verdict.findings if finding.violations}
    assert found.keys() == set(broken.split()), [finding.shown for finding in found.values()]
    for finding in found.values():
        assert finding.violations == 1, finding.shown
    assert told in found[next(iter(broken.split()))].shown[0]


def a_start_is_sent_again_after_its_answer_was_lost(run: ScriptedRun) -> None:
    Race.begun(run, 58.0, KEY, due_s=FAR_S).approved(58.2, W)
    starts = [number for number, call in enumerate(run.history.calls) if call.verb == "start"]
    first = run.history.calls[starts[-1]]
    run.history.calls[starts[-1]] = replace(first, outcome="unknown", instance_key=None)
    run.history.calls.append(replace(first, resends=first.number))


def a_completion_is_sent_again_after_its_answer_was_lost(run: ScriptedRun) -> None:
    it = race(run)
    it.approved(58.1, W)
    (done,) = (call for call in run.history.calls if call.verb == "complete" and call.instance_key == KEY)
    run.history.calls.remove(done)
    run.history.calls += [
        replace(done, outcome="unknown", answer=None),
        replace(done, answer="NOT_FOUND", resends=done.number, began_at=done.began_at + 1, ended_at=done.began_at + 2),
    ]


def a_start_is_refused(run: ScriptedRun) -> None:
    ScriptedInstance(run, KEY, "chaos-race").call(58.0, "start", outcome="fail", instance_key=None)


def a_client_gives_up_before_its_message_is_published(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    instance.call(58.1, "publish", outcome="unknown")


def a_worker_calls_for_a_service_task_whose_instance_was_cancelled(run: ScriptedRun) -> None:
    it = race(run)
    job = it.canceled_at_work(58.1, W)
    it.instance.attempt(59.9, job.timer_key, job)


def a_locked_service_task_is_removed_after_its_instance_s_end(run: ScriptedRun) -> None:
    it = race(run)
    instance, job = it.instance, it.handed_on(58.1)
    cancel = instance.signal(58.2, "cancel")
    instance.call(58.2, "stop", "SENT")
    instance.step(58.22, [taken_signal(cancel, "cancel")], "3 chargex 1 chaos-racex", outcome="CANCELED")
    closed = instance.signal(58.23, "closed")
    instance.late(58.72, closed, DeliveryDeleted(job), instance.ending(58.72, job, "DISCARDED", ENGINE))


def two_cancels_come_at_once(run: ScriptedRun) -> None:
    instance = waiting(run, 58.0, KEY)
    keys = [instance.signal(58.1 + n / 100, "cancel") for n in range(2)]
    instance.call(58.12, "stop", "SENT")
    first, second = (taken_signal(key, "cancel") for key in keys)
    signals = [first, second | {"stale": True}]
    instance.step(58.14, signals, "3 paidx 1 chaos-messagex", outcome="CANCELED")


@pytest.mark.parametrize(
    "violation",
    [
        a_start_is_sent_again_after_its_answer_was_lost,
        a_completion_is_sent_again_after_its_answer_was_lost,
        a_start_is_refused,
        a_client_gives_up_before_its_message_is_published,
        a_worker_calls_for_a_service_task_whose_instance_was_cancelled,
        a_locked_service_task_is_removed_after_its_instance_s_end,
        two_cancels_come_at_once,
    ],
    ids=lambda violation: violation.__name__,
)
def test_a_legal_history_of_processes_is_valid(violation: Violation) -> None:
    run = good()
    violation(run)

    verdict = judge(run.end(), exercised=EXERCISED | PROCESSES)

    assert red(verdict) == set(), [finding.shown for finding in verdict.findings if finding.violations]
    assert verdict.status == "valid", verdict.reasons


def test_a_run_without_its_planned_processes_is_unknown() -> None:
    verdict = judge(blank().end(), exercised=PROCESSES)

    assert verdict.status == "unknown"
    assert "P4 has no case" in verdict.reasons


def test_an_instance_or_a_task_that_only_the_table_has_makes_a_run_unknown() -> None:
    history = good().end()
    history.running.append(7)
    history.open_tasks.append(9)

    verdict = judge(history)

    assert verdict.status == "unknown"
    assert [reason for reason in verdict.reasons if "left only in the table" in reason] == [
        "the recording is incomplete: instance 7 is left only in the table (1 such)",
        "the recording is incomplete: task 9 is left only in the table (1 such)",
    ]
