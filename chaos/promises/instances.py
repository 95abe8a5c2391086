"""Check P1, P2 and P5: each started instance begins once and ends, and does not change after its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history.calls import Call
from chaos.process_index import BEGIN, InstanceHistory
from chaos.process_models import PROCESSES
from chaos.promises.wording import call_of, clock, instance_of
from chaos.run_index import RunIndex


def ended(run: RunIndex) -> Iterator[str | None]:
    """Check that each acknowledged instance began, and that it ended after its client had acted.

    Each incident is a violation: an incident stops an instance, and the models give no reason for an incident.
    """
    asked: defaultdict[int, list[Call]] = defaultdict(list)
    for call in run.history.calls:
        if call.process is None or call.instance_key is None or call.outcome != "ok":
            continue
        asked[call.instance_key].append(call)
        if call.verb == "start":
            instance = run.processes.instances.get(call.instance_key)
            yield None if instance and instance.rows else f"{call_of(call)}: the instance did not begin"
    for instance in run.processes.instances.values():
        if not instance.rows:
            continue
        if instance.incidents:
            first = instance.incidents[0]
            yield f"{instance_of(instance)}: an incident stopped the instance at {first.node_id}: {first.sentence}"
        elif instance.ended is None and _is_driven(instance, asked[instance.instance_key]):
            yield f"{instance_of(instance)}: the instance has not ended by {clock(run.history.ended_at)}"
        else:
            yield None


def one_start_one_instance(run: RunIndex) -> Iterator[str | None]:
    """Count the instances of each start call with its repetitions, and check that each instance has a start call."""
    starts: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in run.history.calls:
        if call.verb == "start":
            starts[call.tenant_id, call.name or ""].append(call)
    made: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for signal in run.processes.signals.values():
        if signal.kind == BEGIN and signal.sent is not None:
            made[signal.tenant_id, str(signal.payload.get("variables", {}).get("order"))].append(signal.instance_key)
    for (tenant_id, name), calls in starts.items():
        keys = made.get((tenant_id, name), [])
        told = {call.instance_key for call in calls if call.outcome == "ok"}
        if len(keys) > 1:
            yield f"{call_of(calls[0])}: the call created {len(keys)} instances, {keys}"
        elif told - set(keys):
            yield f"{call_of(calls[-1])}: the answers have {sorted(map(str, told))}, and the call created {keys}"
        else:
            yield None
    for start, keys in made.items():
        for key in keys:
            instance = run.processes.instances.get(key)
            yield _without_start(instance, starts.get(start, [])) if instance and instance.rows else None


def nothing_after_the_end(run: RunIndex) -> Iterator[str | None]:
    """Check that an ended instance takes no step, creates no rows, and leaves no rows behind."""
    left = _left(run)
    for instance in run.processes.instances.values():
        if instance.ended is None:
            continue
        late = _late(instance, instance.ended)
        told = f"{instance_of(instance)}: ended at {clock(run.committed_s[instance.ended])}"
        if late is not None:
            yield f"{told}, and continued at {clock(run.committed_s[late])}"
        elif instance.instance_key in left:
            yield f"{told}, but the database still contains its {left[instance.instance_key]}"
        else:
            yield None


def _left(run: RunIndex) -> dict[int, str]:
    """For each instance with remaining timers, tasks or service tasks at the end of the run, return one of these."""
    left: dict[int, str] = {}
    for key, timer in run.timers.items():
        if timer.pending and timer.row is not None and timer.row.instance_key is not None:
            left[timer.row.instance_key] = f"timer {key}"
    for key, task in run.processes.tasks.items():
        if task.gone is None:
            left[task.row.instance_key] = f"task {key}"
    undelivered = set(run.history.undelivered)
    left |= {instance: f"service task {key}" for key, instance in run.processes.jobs.items() if key in undelivered}
    return left


def _is_driven(instance: InstanceHistory, calls: list[Call]) -> bool:
    """Return whether clients have done all actions that an instance waits for, so that the instance must end."""
    process = PROCESSES.get(instance.row.process_id)
    if process is None or process.boundary:
        return True
    return any(
        call.verb == "publish" or (call.verb == "complete" and call.answer == "COMPLETED") or call.answer == "SENT"
        for call in calls
    )


def _without_start(instance: InstanceHistory, calls: list[Call]) -> str | None:
    row = instance.row
    if any((call.tenant_id, call.process) == (row.tenant_id, row.process_id) for call in calls):
        return None
    return f"{instance_of(instance)}: no client started the instance"


def _late(instance: InstanceHistory, ended_in: int) -> int | None:
    """Find the first commit after an instance's end that concerns the instance."""
    numbers = [number for number, _ in (*instance.rows, *instance.steps, *instance.created) if number > ended_in]
    return min(numbers, default=None)
