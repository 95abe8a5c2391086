"""P1, P2 and P5: each instance that was started begins once and comes to its end, and nothing comes after that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import Call
from chaos.instances import BEGIN, InstanceLife
from chaos.lives import Run
from chaos.models import PROCESSES
from chaos.promises.wording import call_of, clock, instance_of


def ended(run: Run) -> Iterator[str | None]:
    """Look for each instance that was acknowledged, and for its end once its client has done what it waits for.

    One that has an incident has stopped: none of the models gives a cause for that.
    """
    asked: defaultdict[int, list[Call]] = defaultdict(list)
    for call in run.history.calls:
        if call.process is None or call.instance_key is None or call.outcome != "ok":
            continue
        asked[call.instance_key].append(call)
        if call.verb == "start":
            life = run.processes.instances.get(call.instance_key)
            yield None if life and life.rows else f"{call_of(call)}: it never began"
    for life in run.processes.instances.values():
        if not life.rows:
            continue
        if life.incidents:
            first = life.incidents[0]
            yield f"{instance_of(life)}: it stopped at {first.node_id}: {first.sentence}"
        elif life.ended is None and _is_driven(life, asked[life.instance_key]):
            yield f"{instance_of(life)}: it has not ended by {clock(run.history.ended_at)}"
        else:
            yield None


def one_start_one_instance(run: Run) -> Iterator[str | None]:
    """Count the instances that each start made, however often it was sent, and look for the start of each instance."""
    starts: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in run.history.calls:
        if call.verb == "start":
            starts[call.tenant_id, call.name or ""].append(call)
    made: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for signal in run.processes.signals.values():
        if signal.kind == BEGIN and signal.sent is not None:
            made[signal.tenant_id, str(signal.said.get("variables", {}).get("order"))].append(signal.instance_key)
    for (tenant_id, name), calls in starts.items():
        keys = made.get((tenant_id, name), [])
        told = {call.instance_key for call in calls if call.outcome == "ok"}
        if len(keys) > 1:
            yield f"{call_of(calls[0])}: it made {len(keys)} instances, {keys}"
        elif told - set(keys):
            yield f"{call_of(calls[-1])}: told {sorted(map(str, told))}, and it made {keys}"
        else:
            yield None
    for start, keys in made.items():
        for key in keys:
            life = run.processes.instances.get(key)
            yield _stranger(life, starts.get(start, [])) if life and life.rows else None


def nothing_after_the_end(run: Run) -> Iterator[str | None]:
    """See that an instance that has ended takes no step, makes nothing, and leaves nothing that waits for it."""
    left = _left(run)
    for life in run.processes.instances.values():
        if life.ended is None:
            continue
        late = _late(life, life.ended)
        told = f"{instance_of(life)}: ended at {clock(run.committed_s[life.ended])}"
        if late is not None:
            yield f"{told}, and went on at {clock(run.committed_s[late])}"
        elif life.instance_key in left:
            yield f"{told}, and left {left[life.instance_key]}"
        else:
            yield None


def _left(run: Run) -> dict[int, str]:
    """Name by instance something that was still there for it at the end."""
    left: dict[int, str] = {}
    for key, timer in run.lives.items():
        if timer.pending and timer.row is not None and timer.row.instance_key is not None:
            left[timer.row.instance_key] = f"timer {key}"
    for key, task in run.processes.tasks.items():
        if task.gone is None:
            left[task.row.instance_key] = f"task {key}"
    undelivered = set(run.history.undelivered)
    left |= {instance: f"service task {key}" for key, instance in run.processes.jobs.items() if key in undelivered}
    return left


def _is_driven(life: InstanceLife, calls: list[Call]) -> bool:
    """Say whether clients have done all that an instance waits for, so that it must end by itself."""
    process = PROCESSES.get(life.row.process_id)
    if process is None or process.boundary:
        return True
    return any(
        call.verb == "publish" or (call.verb == "complete" and call.answer == "COMPLETED") or call.answer == "SENT"
        for call in calls
    )


def _stranger(life: InstanceLife, calls: list[Call]) -> str | None:
    row = life.row
    if any((call.tenant_id, call.process) == (row.tenant_id, row.process_id) for call in calls):
        return None
    return f"{instance_of(life)}: nobody started it"


def _late(life: InstanceLife, ended_in: int) -> int | None:
    """Find the first commit after its end in which an instance did anything."""
    numbers = [number for number, _ in (*life.rows, *life.steps, *life.made) if number > ended_in]
    return min(numbers, default=None)
