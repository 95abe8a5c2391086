"""Compute how much a step increases its tenant's usage: instances, open tasks and pending timers.

A step has an increase only if it opens more rows than it closes. An instance can therefore end even if its tenant has
used up a quota.
"""

from typing import NamedTuple

from shardclock_server.bpmn.model import Definition, NodeKind
from shardclock_server.bpmn.model.definition import TimerTrigger
from shardclock_server.engine.advance import Advanced


class UsageIncrease(NamedTuple):
    """The increase of each resource by one step; the names of resources are as in `shardclock.remaining_quota`."""

    instances: int = 0
    tasks: int = 0
    timers: int = 0


NOTHING = UsageIncrease()


def usage_increase_of(done: Advanced, definition: Definition) -> UsageIncrease:
    """Return the increase by a step; each amount is at least 0."""
    outbox = done.outbox
    begins = int(done.was == 0 and outbox.ended is None)
    tasks, timers = outbox.opened()
    if not (tasks or timers):
        return UsageIncrease(begins) if begins else NOTHING
    for node_id, at in outbox.closed_nodes:
        if node_id:
            timers -= _is_timer(definition, node_id)
            continue
        tasks -= definition.nodes[at].kind == NodeKind.USER
        if timers > 0:
            timers -= _timers_at(definition, at)
    return UsageIncrease(begins, max(0, tasks), max(0, timers))


def _timers_at(definition: Definition, node_id: str) -> int:
    """Count the timers of a token at a node."""
    node = definition.nodes[node_id]
    waits = [*node.boundaries]
    if node.kind == NodeKind.CATCH:
        waits.append(node_id)
    elif node.kind == NodeKind.EVENT_BASED:
        waits += [flow.target for flow in node.outgoing]
    waits += [start for inner in node.event_subprocesses if (start := definition.nodes[inner].start)]
    return sum([_is_timer(definition, it) for it in waits])


def _is_timer(definition: Definition, node_id: str) -> bool:
    return isinstance(definition.nodes[node_id].trigger, TimerTrigger)
