"""P3 and P6: each signal to an instance is taken once, and what clients were told of processes is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import Call
from chaos.instances import InstanceLife, SignalLife, passes_of, told_of
from chaos.lives import Run
from chaos.models import PROCESSES
from chaos.promises.wording import call_of, clock, instance_of, signal_of

CLOCK_SLACK_S = 0.005  # two clocks of one machine, read one after the other


def taken_once(run: Run) -> Iterator[str | None]:
    """Follow each signal from its sending to the one step that takes it, in the commit that deletes it.

    A signal to an instance that has ended is recorded as stale instead. And each step leads from one version of its
    instance to the next, so that no two engines have advanced the same state.
    """
    for signal in run.processes.signals.values():
        offence = _not_once(run, signal)
        yield f"{signal_of(signal)}: {offence}" if offence else None
    for life in run.processes.instances.values():
        versions = [row.version for _, row in life.rows]
        steps = [step.version for _, step in life.steps]
        whole = list(range(1, len(versions) + 1))
        if versions != whole:
            yield f"{instance_of(life)}: it went through the versions {versions}"
        elif [(number, row.version) for number, row in life.rows] != [
            (number, step.version) for number, step in life.steps
        ]:
            yield f"{instance_of(life)}: its versions are {versions}, its steps {steps}"
        else:
            yield None


def told_truly(run: Run) -> Iterator[str | None]:
    """Hold what clients were told against what was committed before the answer came.

    What was acknowledged was sent: P3 sees to it that it is taken, P4 that it has an effect. A signal may only be stale
    if its token was gone, and an instance only be cancelled if a client asked for that.
    """
    sent: defaultdict[int, list[SignalLife]] = defaultdict(list)
    for signal in run.processes.signals.values():
        if signal.sent is not None:
            sent[signal.instance_key].append(signal)
    stopped: set[int | None] = set()
    for call in run.history.calls:
        if call.verb == "stop" and call.outcome != "fail":
            stopped.add(call.instance_key)
        if call.process is not None and call.outcome == "ok" and run.clock_is_true:
            yield None if _is_true(run, call, sent) else f"{call_of(call)}: it is not so"
    for life in run.processes.instances.values():
        if life.rows and life.row.outcome == "CANCELED" and life.instance_key not in stopped:
            yield f"{instance_of(life)}: it was cancelled, and nobody asked for that"
        yield from _wrongly_stale(life)


def _not_once(run: Run, signal: SignalLife) -> str:
    """Say what is wrong with how a signal was taken; nothing if all is right."""
    taken = [*signal.taken, *signal.spent]
    offence = ""
    if signal.sent is None:
        offence = "it was taken, and nobody sent it"
    elif signal.given_up:
        offence = "no engine could take it"
    elif len(taken) > 1:
        at = ", ".join(clock(run.committed_s[number]) for number in taken)
        offence = f"it was taken {len(taken)} times, at {at}"
    elif signal.takers - {signal.instance_key}:
        offence = f"instance {min(signal.takers)} took it"
    elif signal.gone is None:
        offence = "it was taken, and is still there" if taken else f"not taken by {clock(run.history.ended_at)}"
    elif signal.gone not in taken:
        offence = f"it was gone at {clock(run.committed_s[signal.gone])}, and its instance had not taken it"
    return offence


def _is_true(run: Run, call: Call, sent: dict[int, list[SignalLife]]) -> bool:
    assert call.instance_key is not None, "an answer names its instance"
    until_s = (run.history.ended_at if call.ended_at is None else call.ended_at) + CLOCK_SLACK_S

    def told(number: int | None) -> bool:
        return number is not None and run.committed_s[number] <= until_s

    kinds = {signal.kind for signal in sent[call.instance_key] if told(signal.sent)}
    life = run.processes.instances.get(call.instance_key)
    task = run.processes.tasks.get(call.task_key or 0)
    holds = {
        ("start", None): "begin" in kinds,
        ("complete", "COMPLETED"): task is not None and told(task.completed) and "completed" in kinds,
        ("complete", "NOT_FOUND"): task is not None and (told(task.completed) or told(task.gone)),
        ("publish", "REACHED"): "happened" in kinds,
        ("publish", "KEPT"): True,
        ("stop", "SENT"): "cancel" in kinds,
        ("stop", "NOT_FOUND"): life is not None and told(life.ended),
    }
    return holds.get((call.verb, call.answer), False)


def _wrongly_stale(life: InstanceLife) -> Iterator[str | None]:
    """See that the token of each stale signal had left its node when that was taken, or the instance had ended."""
    process = PROCESSES.get(life.row.process_id) if life.rows else None
    if process is None:
        return
    inside: set[tuple[int, str]] = set()
    for number, step in life.steps:
        for token, node_id, change in passes_of(step):
            (inside.add if change == "entered" else inside.discard)((token, node_id))
        for told in told_of(step):
            if told.stale and told.token is not None:
                awaited = process.task if told.node_id in (None, process.boundary) else told.node_id
                waits = number != life.ended and (told.token, awaited) in inside
                yield f"{instance_of(life)}: a {told.kind} was stale, and {awaited} waits for it" if waits else None
