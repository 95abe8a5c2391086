"""Create and end tokens in the working memory of one step, which also collects the step's effects."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime

from shardclock.jsonb import storable
from shardclock_server.bpmn.model.definition import Definition, FlowNode
from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.bpmn.step.effects import (
    ChildOpened,
    Effect,
    IncidentRaised,
    IncidentResolved,
    ServiceTaskOpened,
    SignalThrown,
    TaskOpened,
    TokenChange,
    TokenChanged,
)
from shardclock_server.bpmn.step.evaluation_budget import EvaluationBudget
from shardclock_server.bpmn.step.state import Continuation, Instance, PlannedEntry, Token
from shardclock_server.bpmn.step.variables import evaluate_value
from shardclock_server.bpmn.step.wait_closing import closed_by_end
from shardclock_server.feel import Json

SENTENCE_CHARS_MAX = 2_000
# The limit of nested call activities. One turn of an engine propagates a cancellation by one level of calls.
CALLS_DEPTH_MAX = 100


class StepContext:
    """The working memory of a step.

    shape:   `touched` are keys of scopes in which a token ended or arrived at a join, in order; `entered` counts the
             entered nodes since all tokens last waited
    """

    def __init__(
        self, definition: Definition, instance: Instance, now: datetime, *, calls_depth_max: int = CALLS_DEPTH_MAX
    ) -> None:
        self.definition = definition
        self.instance = instance
        self.now = now
        self.calls_depth_max = calls_depth_max
        self.budget = EvaluationBudget(now)
        self.effects: list[Effect] = []
        continuation = instance.continuation or Continuation((), (), 0)
        self.entries: deque[PlannedEntry] = deque(continuation.entries)
        self.touched: dict[int, None] = dict.fromkeys(continuation.touched)
        self.entered = continuation.entered

    def node_of(self, token: Token) -> FlowNode:
        """Return the node at which a token is."""
        return self.definition.nodes[token.node_id]

    def alive(self, key: int) -> Token | None:
        """Return the token with a key; None if the token has ended."""
        return self.instance.tokens.get(key)

    def is_inner(self, token: Token) -> bool:
        """Return whether a token is one execution of a multi-instance activity."""
        if self.node_of(token).loop is None:
            return False
        scope = self.alive(token.scope)
        return scope is not None and scope.node_id == token.node_id

    def is_body(self, token: Token) -> bool:
        """Return whether a token stands for a whole multi-instance activity, and contains the executions."""
        return self.node_of(token).loop is not None and not self.is_inner(token)

    def is_inside(self, token: Token, others: Sequence[Token | None]) -> bool:
        """Return whether a token is one of the given tokens, or is inside one of the given tokens."""
        at: Token | None = token
        while at is not None and at not in others:
            at = self.alive(at.scope)
        return at is not None

    def value(self, text: Text, token: Token, *, levels: int = 0) -> Json:
        """Evaluate a text or an expression in a token's scope; see `evaluate_value`.

        errors:  EvaluationFailed
        """
        return evaluate_value(text, self.instance, token, self.budget, levels=levels)

    def emit(self, effect: Effect) -> None:
        """Add an effect, and count the characters of the sent variables in the budget."""
        match effect:
            case ServiceTaskOpened():
                # The headers are sent twice: among the variables, and separately.
                self.budget.send(effect.variables, effect.headers, effect.headers)
            case ChildOpened():
                self.budget.send(effect.variables, effect.catches)
            case SignalThrown():
                self.budget.send(effect.variables)
            case TaskOpened():
                self.budget.send(effect.form_key)
        self.effects.append(effect)

    def add(self, node_id: str, scope: int) -> Token:
        """Create a token at a node."""
        token = Token(self.instance.next_key, node_id, scope)
        self.instance.next_key += 1
        self.instance.tokens[token.key] = token
        self.effects.append(TokenChanged(token.key, node_id, TokenChange.ENTERED))
        return token

    def plan(self, node_id: str, scope: int, results: Mapping[str, Json] | None = None, *, number: int = 0) -> None:
        """Plan a token's entry into a node, behind the other planned entries."""
        self.entries.append(PlannedEntry(node_id, scope, results, number))

    def store_continuation(self) -> None:
        """Store the step's remaining work in the instance; without remaining work, store None."""
        is_left = self.entries or self.touched
        self.instance.continuation = (
            Continuation(tuple(self.entries), tuple(self.touched), self.entered) if is_left else None
        )

    def raise_incident(self, token: Token, sentence: str) -> None:
        """Stop a token with an incident until an operator resolves the incident."""
        token.has_incident = True
        self.emit(IncidentRaised(token.key, token.node_id, storable(sentence[:SENTENCE_CHARS_MAX])))

    def resolve_incident(self, token: Token) -> None:
        """Let a stopped token continue; a token without an incident is unchanged."""
        if token.has_incident:
            token.has_incident = False
            self.emit(IncidentResolved(token.key))

    def end(self, token: Token, change: TokenChange = TokenChange.LEFT) -> None:
        """Remove a token, and close its waits."""
        node = self.node_of(token)
        self.resolve_incident(token)
        self.effects += closed_by_end(token, node)
        del self.instance.tokens[token.key]
        self.effects.append(TokenChanged(token.key, token.node_id, change))
        self.touched[token.scope] = None

    def terminate(self, token: Token) -> None:
        """Remove a token and all tokens inside it, the innermost first."""
        self.terminate_inside(token)
        self.end(token, TokenChange.TERMINATED)

    def terminate_inside(self, scope: Token) -> None:
        """Remove all tokens inside a scope, the innermost first, and the planned entries."""
        children: defaultdict[int, list[Token]] = defaultdict(list)
        for token in self.instance.tokens.values():
            children[token.scope].append(token)
        cleared = set[int]()

        def clear(at: Token) -> None:
            for child in children[at.key]:
                clear(child)
                self.end(child, TokenChange.TERMINATED)
            at.arrived.clear()
            cleared.add(at.key)

        clear(scope)
        self.entries = deque(entry for entry in self.entries if entry.scope not in cleared)
