"""Move tokens at an operator's request: terminate some tokens, and create new tokens at chosen nodes."""

from shardclock_server.bpmn.step.joins import remove_joined
from shardclock_server.bpmn.step.signals import Moved
from shardclock_server.bpmn.step.state import ROOT, Phase, Token
from shardclock_server.bpmn.step.tokens import StepContext


def scopes_for(step: StepContext, node_id: str) -> list[Token]:
    """Return the tokens of the scope that contains a node.

    A new token can be created at the node only if exactly one token is at the node's scope.
    """
    scope_id = step.definition.nodes[node_id].scope_id
    return [
        token
        for token in step.instance.tokens.values()
        if token.node_id == scope_id and token.phase == Phase.WAITS and not step.is_body(token)
    ]


def move(step: StepContext, moved: Moved) -> bool:
    """Apply all requested terminations and new tokens; if one of the requests is invalid, change nothing.

    A request can't terminate the root token; only a cancellation can.
    """
    if ROOT in moved.terminated or not step.definition.nodes.keys() >= set(moved.begun):
        return False
    ending = [step.alive(key) for key in moved.terminated]
    found = [scopes_for(step, node_id) for node_id in moved.begun]
    if None in ending or any(len(scopes) != 1 or step.is_inside(scopes[0], ending) for scopes in found):
        return False
    for node_id, (scope,) in zip(moved.begun, found, strict=True):
        remove_joined(scope, step.definition.nodes[node_id])
        step.plan(node_id, scope.key)
    for token in ending:
        if token and step.alive(token.key):
            step.terminate(token)
    return True
