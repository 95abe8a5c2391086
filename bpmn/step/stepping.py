"""Hold one step: the instance that it changes, the nodes that tokens are about to enter, and what follows."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime

from shardclock.jsonb import storable
from shardclock_server.bpmn.model.definition import Definition, Kind, Node
from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.bpmn.step.effects import (
    Change,
    ChildOpened,
    Effect,
    IncidentRaised,
    IncidentResolved,
    Passed,
    ServiceTaskOpened,
    SignalThrown,
    TaskOpened,
    WaitClosed,
)
from shardclock_server.bpmn.step.spending import Spending
from shardclock_server.bpmn.step.state import Entry, Instance, Rest, Token
from shardclock_server.bpmn.step.variables import value_of
from shardclock_server.feel import Json

SENTENCE_CHARS_MAX = 2_000
WAITING = frozenset({Kind.SERVICE, Kind.USER, Kind.RECEIVE, Kind.CATCH, Kind.EVENT_BASED, Kind.CALL})


# Call activities that wait for each other's children. A cancellation goes down one level in each turn of an engine.
CALLS_DEPTH_MAX = 100


class Stepping:
    """What a step works on.

    shape:   `touched` are keys of scopes in which a token ended or arrived at a join, in order; `entered` counts the
             nodes that were entered since the instance last had nothing to go on with
    """

    def __init__(
        self, definition: Definition, instance: Instance, now: datetime, *, calls_depth_max: int = CALLS_DEPTH_MAX
    ) -> None:
        self.definition = definition
        self.instance = instance
        self.now = now
        self.calls_depth_max = calls_depth_max
        self.spending = Spending(now)
        self.effects: list[Effect] = []
        rest = instance.rest or Rest((), (), 0)
        self.entries: deque[Entry] = deque(rest.entries)
        self.touched: dict[int, None] = dict.fromkeys(rest.touched)
        self.entered = rest.entered

    def node_of(self, token: Token) -> Node:
        """Return the node at which a token is."""
        return self.definition.nodes[token.node_id]

    def alive(self, key: int) -> Token | None:
        """Return the token of a key, None if it is gone."""
        return self.instance.tokens.get(key)

    def is_inner(self, token: Token) -> bool:
        """Say whether a token is one execution of a multi-instance activity, whose own token contains it."""
        if self.node_of(token).loop is None:
            return False
        scope = self.alive(token.scope)
        return scope is not None and scope.node_id == token.node_id

    def is_body(self, token: Token) -> bool:
        """Say whether a token is a multi-instance activity's own, which contains its executions."""
        return self.node_of(token).loop is not None and not self.is_inner(token)

    def is_inside(self, token: Token, others: Sequence[Token | None]) -> bool:
        """Say whether a token is one of others, or is contained in one of them."""
        at: Token | None = token
        while at is not None and at not in others:
            at = self.alive(at.scope)
        return at is not None

    def value(self, text: Text, token: Token, *, levels: int = 0) -> Json:
        """Evaluate a text or an expression, as a token sees it; `levels` as of `value_of`.

        errors:  Unanswerable
        """
        return value_of(text, self.instance, token, self.spending, levels=levels)

    def emit(self, effect: Effect) -> None:
        """Add an effect, and count the characters that it sends."""
        match effect:
            case ServiceTaskOpened():
                self.spending.send(effect.variables, effect.headers, effect.headers)  # as variables, and by themselves
            case ChildOpened():
                self.spending.send(effect.variables, effect.catches)
            case SignalThrown():
                self.spending.send(effect.variables)
            case TaskOpened():
                self.spending.send(effect.form_key)
        self.effects.append(effect)

    def add(self, node_id: str, scope: int) -> Token:
        """Make a token at a node."""
        token = Token(self.instance.next_key, node_id, scope)
        self.instance.next_key += 1
        self.instance.tokens[token.key] = token
        self.effects.append(Passed(token.key, node_id, Change.ENTERED))
        return token

    def plan(self, node_id: str, scope: int, results: Mapping[str, Json] | None = None, *, number: int = 0) -> None:
        """Let a token enter a node, in its turn."""
        self.entries.append(Entry(node_id, scope, results, number))

    def leave_rest(self) -> None:
        """Keep what there was no time for, if anything is left."""
        is_left = self.entries or self.touched
        self.instance.rest = Rest(tuple(self.entries), tuple(self.touched), self.entered) if is_left else None

    def raise_incident(self, token: Token, sentence: str) -> None:
        """Stop a token until an operator resolves the incident; an expression may have made a part of the sentence."""
        token.has_incident = True
        self.emit(IncidentRaised(token.key, token.node_id, storable(sentence[:SENTENCE_CHARS_MAX])))

    def resolve_incident(self, token: Token) -> None:
        """Let a token go on, if it had stopped."""
        if token.has_incident:
            token.has_incident = False
            self.emit(IncidentResolved(token.key))

    def end(self, token: Token, change: Change = Change.LEFT) -> None:
        """Take a token away, and close what it waits for."""
        node = self.node_of(token)
        self.resolve_incident(token)
        if node.kind in WAITING or node.boundaries or node.event_subprocesses:
            self.effects.append(WaitClosed(token.key, at=token.node_id))
        del self.instance.tokens[token.key]
        self.effects.append(Passed(token.key, token.node_id, change))
        self.touched[token.scope] = None

    def terminate(self, token: Token) -> None:
        """Take a token away with all inside it, the innermost first."""
        self.terminate_inside(token)
        self.end(token, Change.TERMINATED)

    def terminate_inside(self, scope: Token) -> None:
        """Take away all tokens inside a scope, the innermost first, and those that are about to come."""
        children: defaultdict[int, list[Token]] = defaultdict(list)
        for token in self.instance.tokens.values():
            children[token.scope].append(token)
        cleared = set[int]()

        def clear(at: Token) -> None:
            for child in children[at.key]:
                clear(child)
                self.end(child, Change.TERMINATED)
            at.arrived.clear()
            cleared.add(at.key)

        clear(scope)
        self.entries = deque(entry for entry in self.entries if entry.scope not in cleared)
