"""Check P3 and P6: one step takes each signal to an instance, and clients' answers about processes are true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history.calls import Call
from chaos.process_index import InstanceHistory, SignalHistory, moves_of, signals_of
from chaos.process_models import PROCESSES
from chaos.promises.wording import call_of, clock, instance_of, signal_of
from chaos.run_index import RunIndex

CLOCK_SLACK_S = 0.005  # The possible difference between two clocks of one machine that are read one after the other.


def taken_once(run: RunIndex) -> Iterator[str | None]:
    """Check that one step takes each sent signal, and deletes the signal in the same commit.

    A signal to an ended instance is recorded as stale instead. The versions of an instance must increase by one with
    each step; a repeated version means that two engines have advanced the same state.
    """
    for signal in run.processes.signals.values():
        violation = _wrongly_taken(run, signal)
        yield f"{signal_of(signal)}: {violation}" if violation else None
    for instance in run.processes.instances.values():
        versions = [row.version for _, row in instance.rows]
        steps = [step.version for _, step in instance.steps]
        whole = list(range(1, len(versions) + 1))
        if versions != whole:
            yield f"{instance_of(instance)}: the instance has the versions {versions}"
        elif [(number, row.version) for number, row in instance.rows] != [
            (number, step.version) for number, step in instance.steps
        ]:
            yield f"{instance_of(instance)}: the instance has the versions {versions}, and the steps have {steps}"
        else:
            yield None


def answers_true(run: RunIndex) -> Iterator[str | None]:
    """Compare clients' answers with the commits before these answers.

    An acknowledged signal must have been sent. P3 checks that a step takes the signal, and P4 checks the effect. A
    signal may be stale only if its token was gone. An instance may be cancelled only at a client's request.
    """
    sent: defaultdict[int, list[SignalHistory]] = defaultdict(list)
    for signal in run.processes.signals.values():
        if signal.sent is not None:
            sent[signal.instance_key].append(signal)
    stopped: set[int | None] = set()
    for call in run.history.calls:
        if call.verb == "stop" and call.outcome != "fail":
            stopped.add(call.instance_key)
        if call.process is not None and call.outcome == "ok" and run.clock_is_true:
            yield None if _is_true(run, call, sent) else f"{call_of(call)}: the answer is false"
    for instance in run.processes.instances.values():
        if instance.rows and instance.row.outcome == "CANCELED" and instance.instance_key not in stopped:
            yield f"{instance_of(instance)}: the instance was cancelled, and no client requested this"
        yield from _wrongly_stale(instance)


def _wrongly_taken(run: RunIndex, signal: SignalHistory) -> str:
    """Describe a violation in the commits of a signal; the text is empty without a violation."""
    taken = [*signal.taken, *signal.spent]
    violation = ""
    if signal.sent is None:
        violation = "a step took the signal, which was never sent"
    elif signal.given_up:
        violation = "no engine could take the signal"
    elif len(taken) > 1:
        at = ", ".join(clock(run.committed_s[number]) for number in taken)
        violation = f"{len(taken)} steps took the signal, at {at}"
    elif signal.takers - {signal.instance_key}:
        violation = f"instance {min(signal.takers)} took the signal"
    elif signal.gone is None:
        violation = (
            "a step processed the signal, but did not delete it"
            if taken
            else (f"no step took the signal by {clock(run.history.ended_at)}")
        )
    elif signal.gone not in taken:
        violation = (
            f"the signal was deleted at {clock(run.committed_s[signal.gone])}, and no step of its instance had taken it"
        )
    return violation


def _is_true(run: RunIndex, call: Call, sent: dict[int, list[SignalHistory]]) -> bool:
    assert call.instance_key is not None, "an answer names its instance"
    until_s = (run.history.ended_at if call.ended_at is None else call.ended_at) + CLOCK_SLACK_S

    def told(number: int | None) -> bool:
        return number is not None and run.committed_s[number] <= until_s

    kinds = {signal.kind for signal in sent[call.instance_key] if told(signal.sent)}
    instance = run.processes.instances.get(call.instance_key)
    task = run.processes.tasks.get(call.task_key or 0)
    holds = {
        ("start", None): "begin" in kinds,
        ("complete", "COMPLETED"): task is not None and told(task.completed) and "completed" in kinds,
        ("complete", "NOT_FOUND"): task is not None and (told(task.completed) or told(task.gone)),
        ("publish", "REACHED"): "happened" in kinds,
        ("publish", "KEPT"): True,
        ("stop", "SENT"): "cancel" in kinds,
        ("stop", "NOT_FOUND"): instance is not None and told(instance.ended),
    }
    return holds.get((call.verb, call.answer), False)


def _wrongly_stale(instance: InstanceHistory) -> Iterator[str | None]:
    """Check that the token of each stale signal had left its node, or that the instance had ended."""
    process = PROCESSES.get(instance.row.process_id) if instance.rows else None
    if process is None:
        return
    inside: set[tuple[int, str]] = set()
    for number, step in instance.steps:
        for token, node_id, change in moves_of(step):
            (inside.add if change == "entered" else inside.discard)((token, node_id))
        for taken in signals_of(step):
            if taken.stale and taken.token is not None:
                awaited = process.task if taken.node_id in (None, process.boundary) else taken.node_id
                waits = number != instance.ended and (taken.token, awaited) in inside
                yield (
                    f"{instance_of(instance)}: a signal {taken.kind} was stale, and {awaited} waits for this signal"
                    if waits
                    else None
                )
