"""How much more a tenant has after a step of an instance: instances, open tasks and pending timers.

A step that opens no more than it closes needs no room, so an instance at a full quota still goes on and ends.
"""

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
    for node_id, at in outbox.freed:
        if node_id:
            timers -= _is_timer(definition, node_id)
            continue
        tasks -= definition.nodes[at].kind == Kind.USER
        if timers > 0:  # else nothing lowers the result any more
            timers -= _timers_at(definition, at)
    return Needs(begins, max(0, tasks), max(0, timers))


def _timers_at(definition: Definition, node_id: str) -> int:
    """Count the timers for which a token at a node may wait."""
    node = definition.nodes[node_id]
    waits = [*node.boundaries]
    if node.kind == Kind.CATCH:
        waits.append(node_id)
    elif node.kind == Kind.EVENT_BASED:
        waits += [flow.target for flow in node.outgoing]
    waits += [start for inner in node.event_subprocesses if (start := definition.nodes[inner].start)]
    return sum([_is_timer(definition, it) for it in waits])


def _is_timer(definition: Definition, node_id: str) -> bool:
    return isinstance(definition.nodes[node_id].trigger, Timer)
