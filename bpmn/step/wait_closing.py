"""Decide which waits of a token and of its boundary events end.

engine/outbox.py collects these waits, and sql/processes/apply_steps.sql cancels their timers, messages and signals.
"""

from collections.abc import Iterable, Iterator

from shardclock_server.bpmn.model.definition import FlowNode, NodeKind
from shardclock_server.bpmn.step.effects import WaitClosed
from shardclock_server.bpmn.step.state import Token

WAITING = frozenset(
    {NodeKind.SERVICE, NodeKind.USER, NodeKind.RECEIVE, NodeKind.CATCH, NodeKind.EVENT_BASED, NodeKind.CALL}
)


def closed_by_end(token: Token, node: FlowNode) -> Iterator[WaitClosed]:
    """Close all waits of a token that ends; do nothing if its node can't have waits."""
    if node.kind in WAITING or node.boundaries or node.event_subprocesses:
        yield WaitClosed(token.key, at=token.node_id)


def closed_by_interrupt(scope: Token, start_ids: Iterable[str]) -> Iterator[WaitClosed]:
    """Close the waits of all event sub-processes in a scope that an event has interrupted."""
    for node_id in start_ids:
        yield WaitClosed(scope.key, node_id)
