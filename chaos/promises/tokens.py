"""P4: the tokens of an instance go as its model says, and what each node waits for is made once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from chaos.instances import InstanceLife, Passed
from chaos.lives import Run
from chaos.models import PROCESSES, Made, Process, Way
from chaos.promises.wording import instance_of

OF_INSTANCE = ("begin", "cancel", "continued", "closed")  # signals that move no token out of its node


def as_the_model_says(run: Run) -> Iterator[str | None]:
    """Hold how each instance went against the ways through its model, which are written by hand.

    One that has completed went one of these ways whole: it left these nodes, each once, and one after the other; it
    took these signals, made these timers, tasks and jobs, and its scripts counted so far. So of a task and the timer at
    its boundary one won. Any other instance is on one of these ways.
    """
    for life in run.processes.instances.values():
        process = PROCESSES.get(life.row.process_id) if life.rows else None
        if process is None:
            continue
        passes = [it for it in life.passes() if it.node_id != process.process_id]
        offence = _wrong_pass(passes) or _too_much(life)
        if not offence:
            offences = [_off_the_way(life, passes, process, way) for way in process.ways]
            offence = "" if "" in offences else _likeliest(process, passes, offences)
        yield f"{instance_of(life)}: {offence}" if offence else None


def _wrong_pass(passes: Sequence[Passed]) -> str:
    """Say where a token went as no token can: into a node twice, or out of one in which it was not."""
    inside: dict[tuple[int, str], bool] = {}
    times: Counter[str] = Counter()
    for token, node_id, change in passes:
        if change == "entered":
            times[node_id] += 1
            if times[node_id] > 1:
                return f"{node_id} was entered {times[node_id]} times"
            inside[token, node_id] = True
        elif not inside.pop((token, node_id), False):
            return f"token {token} has {change} {node_id}, where it was not"
    return ""


def _too_much(life: InstanceLife) -> str:
    """Say what was made more than once."""
    (most,) = Counter(made for _, made in life.made).most_common(1) or [(Made("", ""), 0)]
    return f"{most[0].kind} of {most[0].node_id} was made {most[1]} times" if most[1] > 1 else ""


def _off_the_way(life: InstanceLife, passes: Sequence[Passed], process: Process, way: Way) -> str:
    """Say how an instance left a way, or where it stopped short of its end; nothing if it is on it."""
    entered = [it.node_id for it in passes if it.change == "entered"]
    known = {*way.left, *way.terminated}
    if strange := [node_id for node_id in entered if node_id not in known]:
        return f"{strange[0]} is not on the way"
    return (
        _out_of_turn(passes, way.after)
        or (_unlike_its_end(life, passes, process, way) if life.row.outcome == "COMPLETED" else "")
        or (_left_inside(passes) if life.row.outcome is not None else "")
    )


def _out_of_turn(passes: Sequence[Passed], after: Mapping[str, Sequence[str]]) -> str:
    done: set[str] = set()
    for _, node_id, change in passes:
        if change == "entered":
            if missing := [early for early in after.get(node_id, ()) if early not in done]:
                return f"{node_id} was entered before {missing[0]} was left"
        else:
            done.add(node_id)
    return ""


def _unlike_its_end(life: InstanceLife, passes: Sequence[Passed], process: Process, way: Way) -> str:
    left = {it.node_id for it in passes if it.change == "left"}
    terminated = {it.node_id for it in passes if it.change == "terminated"}
    if missing := [node_id for node_id in way.left if node_id not in left]:
        return f"it has completed, and never left {missing[0]}"
    if terminated != set(way.terminated):
        return f"terminated at {sorted(terminated)}, on this way {sorted(way.terminated)}"
    made = {made for _, made in life.made}
    if made != set(way.made):
        return f"made {sorted(made)}, on this way {sorted(way.made)}"
    taken = _taken(life, process)
    if sorted(taken) != sorted(way.takes):
        return f"went on by {sorted(taken)}, on this way {sorted(way.takes)}"
    counted = json.loads(life.row.result or "{}").get("n")
    return f"its scripts counted {counted}, on this way {way.counted}" if counted != way.counted else ""


def _taken(life: InstanceLife, process: Process) -> list[Made]:
    """List the signals that had an effect, each with the node that it was for; a person's completion names none."""
    return [
        Made(told.kind, told.node_id or process.task or "")
        for told in life.told()
        if not told.stale and told.kind not in OF_INSTANCE
    ]


def _left_inside(passes: Sequence[Passed]) -> str:
    inside = {(it.token, it.node_id) for it in passes if it.change == "entered"}
    inside -= {(it.token, it.node_id) for it in passes if it.change != "entered"}
    return f"it has ended, and token {min(inside)[0]} is still at {min(inside)[1]}" if inside else ""


def _likeliest(process: Process, passes: Sequence[Passed], offences: Sequence[str]) -> str:
    """Choose the way of which an instance has most in common, and say what is wrong with that."""
    nodes = {it.node_id for it in passes}
    common = [
        len(nodes & {*way.left, *way.terminated}) - len(nodes - {*way.left, *way.terminated}) for way in process.ways
    ]
    best = common.index(max(common))
    return f"{offences[best]} (the way {process.ways[best].name!r})"
