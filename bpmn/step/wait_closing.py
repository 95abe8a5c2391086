"""Close the waits of a token: cancel the timers, messages and signals of its boundary events, and its own waits."""

from collections.abc import Iterable, Iterator

from shardclock_server.bpmn.model.definition import FlowNode, NodeKind
from shardclock_server.bpmn.step.effects import WaitClosed
from shardclock_server.bpmn.step.state import Token

WAITING = frozenset(
    {NodeKind.SERVICE, NodeKind.USER, NodeKind.RECEIVE, NodeKind.CATCH, NodeKind.EVENT_BASED, NodeKind.CALL}
)


def closed_by_end(token: Token, node: FlowNode) -> Iterator[WaitClosed]:
    """Close all waits of a token that ends, if its node may have waits."""
    if node.kind in WAITING or node.boundaries or node.event_subprocesses:
        yield WaitClosed(token.key, at=token.node_id)


def closed_by_interrupt(scope: Token, start_ids: Iterable[str]) -> Iterator[WaitClosed]:
    """Close the waits of a scope's other event sub-processes, because one event has interrupted the scope."""
    for node_id in start_ids:
        yield WaitClosed(scope.key, node_id)
