"""Tokens that somebody moves by hand: some end, and others begin at nodes of his choice."""

from shardclock_server.bpmn.step.joins import let_go
from shardclock_server.bpmn.step.signals import Moved
from shardclock_server.bpmn.step.state import ROOT, Phase, Token
from shardclock_server.bpmn.step.stepping import Stepping


def scopes_for(step: Stepping, node_id: str) -> list[Token]:
    """Find the tokens inside which a node of the definition can begin; it begins where there is one alone."""
    scope_id = step.definition.nodes[node_id].scope_id
    return [
        token
        for token in step.instance.tokens.values()
        if token.node_id == scope_id and token.phase == Phase.WAITS and not step.is_body(token)
    ]


def move(step: Stepping, moved: Moved) -> bool:
    """Terminate tokens and begin others, all or nothing. The process itself ends by a cancellation alone."""
    if ROOT in moved.terminated or not step.definition.nodes.keys() >= set(moved.begun):
        return False
    ending = [step.alive(key) for key in moved.terminated]
    found = [scopes_for(step, node_id) for node_id in moved.begun]
    if None in ending or any(len(scopes) != 1 or step.is_inside(scopes[0], ending) for scopes in found):
        return False
    for node_id, (scope,) in zip(moved.begun, found, strict=True):
        let_go(scope, step.definition.nodes[node_id])
        step.plan(node_id, scope.key)
    for token in ending:
        if token and step.alive(token.key):
            step.terminate(token)
    return True
