"""Check P4: the tokens of an instance follow a path through its model, and each node creates its item once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from chaos.process_index import InstanceHistory, TokenMove
from chaos.process_models import PROCESSES, ModelPath, NodeItem, Process
from chaos.promises.wording import instance_of
from chaos.run_index import RunIndex

OF_INSTANCE = ("begin", "cancel", "continued", "closed")  # Signals that do not move a token out of its node.


def agrees_with_model(run: RunIndex) -> Iterator[str | None]:
    """Compare each instance with the hand-written paths through its model.

    A completed instance must have followed one complete path: its tokens left the path's nodes, each once and in order;
    the instance took the path's signals and created the path's timers, tasks and jobs; and each script on the path ran
    once. No path contains both a task's completion and the timer at the task's boundary. If an instance is not
    completed, its tokens must be on one of the paths.
    """
    for instance in run.processes.instances.values():
        process = PROCESSES.get(instance.row.process_id) if instance.rows else None
        if process is None:
            continue
        moves = [it for it in instance.moves() if it.node_id != process.process_id]
        violation = _wrong_pass(moves) or _too_much(instance)
        if not violation:
            violations = [_off_path(instance, moves, process, path) for path in process.paths]
            violation = "" if "" in violations else _likeliest(process, moves, violations)
        yield f"{instance_of(instance)}: {violation}" if violation else None


def _wrong_pass(moves: Sequence[TokenMove]) -> str:
    """Describe an impossible move: a second entry into a node, or an exit from a node without an entry."""
    inside: dict[tuple[int, str], bool] = {}
    times: Counter[str] = Counter()
    for token, node_id, change in moves:
        if change == "entered":
            times[node_id] += 1
            if times[node_id] > 1:
                return f"{node_id} was entered {times[node_id]} times"
            inside[token, node_id] = True
        elif not inside.pop((token, node_id), False):
            return f"token {token} has {change} {node_id}, where the token was not"
    return ""


def _too_much(instance: InstanceHistory) -> str:
    """Describe an item that was created more than once."""
    (most,) = Counter(item for _, item in instance.created).most_common(1) or [(NodeItem("", ""), 0)]
    return f"{most[0].kind} of {most[0].node_id} was created {most[1]} times" if most[1] > 1 else ""


def _off_path(instance: InstanceHistory, moves: Sequence[TokenMove], process: Process, path: ModelPath) -> str:
    """Describe the difference between an instance and a path; the text is empty if the instance is on the path."""
    entered = [it.node_id for it in moves if it.change == "entered"]
    known = {*path.left, *path.terminated}
    if strange := [node_id for node_id in entered if node_id not in known]:
        return f"{strange[0]} is not on the path"
    return (
        _out_of_turn(moves, path.after)
        or (_unlike_its_end(instance, moves, process, path) if instance.row.outcome == "COMPLETED" else "")
        or (_left_inside(moves) if instance.row.outcome is not None else "")
    )


def _out_of_turn(moves: Sequence[TokenMove], after: Mapping[str, Sequence[str]]) -> str:
    done: set[str] = set()
    for _, node_id, change in moves:
        if change == "entered":
            if missing := [early for early in after.get(node_id, ()) if early not in done]:
                return f"`{node_id}` was entered before `{missing[0]}` was left"
        else:
            done.add(node_id)
    return ""


def _unlike_its_end(instance: InstanceHistory, moves: Sequence[TokenMove], process: Process, path: ModelPath) -> str:
    left = {it.node_id for it in moves if it.change == "left"}
    terminated = {it.node_id for it in moves if it.change == "terminated"}
    if missing := [node_id for node_id in path.left if node_id not in left]:
        return f"the instance has completed, and no token left {missing[0]}"
    if terminated != set(path.terminated):
        return f"tokens were terminated at {sorted(terminated)}; the path has {sorted(path.terminated)}"
    created = {item for _, item in instance.created}
    if created != set(path.created):
        return f"the instance created {sorted(created)}; the path has {sorted(path.created)}"
    taken = _taken(instance, process)
    if sorted(taken) != sorted(path.takes):
        return f"the instance took the signals {sorted(taken)}; the path has {sorted(path.takes)}"
    counted = json.loads(instance.row.result or "{}").get("n")
    return f"the scripts counted {counted}; the path has {path.counted}" if counted != path.counted else ""


def _taken(instance: InstanceHistory, process: Process) -> list[NodeItem]:
    """List the signals with an effect, each with its node; a user task's completion has no node."""
    return [
        NodeItem(signal.kind, signal.node_id or process.task or "")
        for signal in instance.signals()
        if not signal.stale and signal.kind not in OF_INSTANCE
    ]


def _left_inside(moves: Sequence[TokenMove]) -> str:
    inside = {(it.token, it.node_id) for it in moves if it.change == "entered"}
    inside -= {(it.token, it.node_id) for it in moves if it.change != "entered"}
    return f"the instance has ended, and token {min(inside)[0]} is still at {min(inside)[1]}" if inside else ""


def _likeliest(process: Process, moves: Sequence[TokenMove], violations: Sequence[str]) -> str:
    """Choose the path with the smallest difference to an instance, and describe this difference."""
    nodes = {it.node_id for it in moves}
    common = [
        len(nodes & {*path.left, *path.terminated}) - len(nodes - {*path.left, *path.terminated})
        for path in process.paths
    ]
    best = common.index(max(common))
    return f"{violations[best]} (the path {process.paths[best].name!r})"
