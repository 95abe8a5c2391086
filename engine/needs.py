"""How much more a tenant has after a step of an instance: instances, open tasks and pending timers.

A step that opens no more than it closes needs no room, so an instance at a full quota still goes on and ends.
"""

from collections.abc import Iterable
from typing import NamedTuple

from shardclock_server.bpmn.model import Definition, Kind
from shardclock_server.bpmn.model.definition import Timer
from shardclock_server.engine.advancing import Advanced


class Needs(NamedTuple):
    """The room that one instance needs for its step, by the names of `shardclock.room_of`."""

    instances: int = 0
    tasks: int = 0
    timers: int = 0


NOTHING = Needs()


def needs_of(done: Advanced, definition: Definition) -> Needs:
    """Tell how much more there is after a step than before it."""
    outbox = done.outbox
    begins = int(done.was == 0 and outbox.ended is None)
    tasks, timers = outbox.opened()
    if not (tasks or timers):
        return Needs(begins) if begins else NOTHING
    freed_timers = sum(
        _is_timer(definition, node_id) if node_id else _timers_at(definition, at) for node_id, at in outbox.freed
    )
    freed_tasks = sum(not node_id and definition.nodes[at].kind == Kind.USER for node_id, at in outbox.freed)
    return Needs(begins, max(0, tasks - freed_tasks), max(0, timers - freed_timers))


def _timers_at(definition: Definition, node_id: str) -> int:
    """Count the timers for which a token at a node may wait."""
    node = definition.nodes[node_id]
    waits = [*node.boundaries, *(flow.target for flow in node.outgoing if node.kind == Kind.EVENT_BASED)]
    starts = (definition.nodes[inner].start for inner in node.event_subprocesses)
    own = [node_id] if node.kind == Kind.CATCH else []
    return _count(definition, [*waits, *(start for start in starts if start), *own])


def _count(definition: Definition, node_ids: Iterable[str]) -> int:
    return sum(_is_timer(definition, node_id) for node_id in node_ids)


def _is_timer(definition: Definition, node_id: str) -> bool:
    return isinstance(definition.nodes[node_id].trigger, Timer)
