"""The state of an instance: its tokens, each at a node, and the tokens' variables.

The first token stands for the process itself. A token at a scope, such as a sub-process, contains the tokens inside it.
A token's key is never reused, so a step recognizes a signal for an ended token.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from shardclock_server.feel import Json

ROOT = 1
STATE_BYTES_MAX = 1024 * 1024
# The version of the state's format. Raise the version with each change of the format that an older `read_state` would
# misread or lose. An engine of an older release then does not process the instance.
FORMAT = 1
NO_VARIABLES: Mapping[str, Json] = MappingProxyType({})
FIELDS = 9  # The number of fields in a serialized token.
NO_FIELDS = [0] * FIELDS


class Catches(NamedTuple):
    """The errors and escalations that the callers of a child catch; the nearest caller comes first.

    shape:   pairs of a code (None for every code) and a flag, which is true if the catching event interrupts the call
    """

    errors: tuple[tuple[str | None, bool], ...] = ()
    escalations: tuple[tuple[str | None, bool], ...] = ()

    def has_error(self, code: str | None) -> bool:
        """Return whether a caller catches an error."""
        return any(caught in (None, code) for caught, _ in self.errors)

    def ends_at(self, escalation: str) -> bool:
        """Return whether the nearest caller that catches an escalation interrupts its call, which ends the child."""
        return next((interrupts for caught, interrupts in self.escalations if caught in (None, escalation)), False)


NO_CATCHES = Catches()


class Phase(IntEnum):
    """The progress of a token at its node.

    When the token's incident is resolved, the token continues with this phase.
    """

    ENTERED = 0
    HAS_INPUTS = 1  # The input mappings have been evaluated.
    IS_WATCHED = 2  # The boundary events wait.
    WAITS = 3  # The node's work has begun.
    IS_DONE = 4  # The node's work is done, but the output mappings are not evaluated yet.
    LEAVES = 5  # The output mappings are evaluated, but the outgoing flows are not chosen yet.


PHASES = tuple(Phase)


@dataclass(slots=True)
class LoopState:
    """The progress of a multi-instance activity.

    shape:   outputs    a value per item
             next       the number of started items
             is_enough  set when the completion condition is true; then no further item starts
    """

    items: list[Json]
    outputs: list[Json]
    next: int = 0
    is_enough: bool = False


@dataclass(slots=True)
class Token:
    """A token: one execution of one node.

    shape:   `scope` is the key of the containing token, 0 for the process. `arrived` has the flows with a token that
             waits at a join inside this scope. `number` is the number of an execution of a multi-instance activity,
             from 1
    """

    key: int
    node_id: str
    scope: int
    phase: Phase = Phase.ENTERED
    has_incident: bool = False
    is_interrupted: bool = False
    variables: dict[str, Json] = field(default_factory=dict)
    arrived: list[str] = field(default_factory=list)
    loop: LoopState | None = None
    number: int = 0


class PlannedEntry(NamedTuple):
    """The planned entry of a new token into a node.

    shape:   `results` are the results of an event that has already occurred at the node; `number` counts the executions
             of a multi-instance activity from 1
    """

    node_id: str
    scope: int
    results: Mapping[str, Json] | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Continuation:
    """The work that remains for the next step after `may_continue` ended a step.

    shape:   `touched` are keys of scopes in which a token ended or arrived at a join; `entered` is the number of
             entered nodes since the last time when all tokens waited
    """

    entries: tuple[PlannedEntry, ...]
    touched: tuple[int, ...]
    entered: int


@dataclass(slots=True)
class Instance:
    """All tokens of an instance, by key. An instance that has ended has no tokens.

    shape:   `depth` is the number of call activities that lead to the instance. `start` is the start event; None stands
             for the start event without a trigger. `continuation` is None if all tokens wait. `catches` is empty for an
             instance without a caller
    """

    tokens: dict[int, Token] = field(default_factory=dict)
    next_key: int = ROOT
    depth: int = 0
    start: str | None = None
    continuation: Continuation | None = None
    catches: Catches = NO_CATCHES

    @property
    def is_child(self) -> bool:
        """Return whether a call activity of another instance waits for this instance."""
        return self.depth > 0

    def children(self, key: int) -> list[Token]:
        """Return the tokens directly inside a scope."""
        return [token for token in self.tokens.values() if token.scope == key]


class StateTooLarge(ValueError):
    """The state of an instance is larger than the limit."""


class StateTooNew(ValueError):
    """The state has the format of a newer release."""


def write_state(instance: Instance) -> str:
    """Write an instance as compact JSON.

    errors:  StateTooLarge
    """
    tokens = [_written(token) for token in instance.tokens.values()]
    fields: dict[str, Any] = {
        "f": FORMAT, "k": instance.next_key, "c": instance.depth, "s": instance.start, "t": tokens
    }  # fmt: skip
    if instance.catches != NO_CATCHES:
        fields["x"] = instance.catches
    if continuation := instance.continuation:
        fields["r"] = [continuation.entries, continuation.touched, continuation.entered]
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    if len(text) > STATE_BYTES_MAX // 4 and len(text.encode()) > STATE_BYTES_MAX:
        raise StateTooLarge(
            f"the instance has {len(text.encode()):,} bytes of state; the limit is {STATE_BYTES_MAX:,};"
            " keep large values elsewhere, and their keys in variables"
        )
    return text


def read_state(text: str) -> Instance:
    """Read an instance's state from the text of `write_state`.

    errors:  StateTooNew  only a newer release can read the state
    """
    stored = json.loads(text)
    if (written := stored["f"]) > FORMAT:
        raise StateTooNew(f"the instance's state is of format {written}, and this release reads {FORMAT} at most")
    tokens = {fields[0]: _read(fields) for fields in stored["t"]}
    continuation = None
    if "r" in stored:
        entries, touched, entered = stored["r"]
        continuation = Continuation(tuple(PlannedEntry(*entry) for entry in entries), tuple(touched), entered)
    catches = read_catches(stored.get("x"))
    return Instance(
        tokens, stored["k"], depth=stored["c"], start=stored["s"], continuation=continuation, catches=catches
    )


def read_catches(stored: Any) -> Catches:
    """Read a child's `Catches` from JSON; None stands for callers that catch nothing."""
    if stored is None:
        return NO_CATCHES
    errors, escalations = (tuple((code, bool(interrupts)) for code, interrupts in each) for each in stored)
    return Catches(errors, escalations)


def _written(token: Token) -> list[object]:
    """Serialize a token as a list of fields, without the default values at the end of the list."""
    flags = token.has_incident + 2 * token.is_interrupted
    loop = token.loop and [token.loop.items, token.loop.outputs, token.loop.next, *([True] * token.loop.is_enough)]
    fields = [token.variables or 0, flags, token.arrived or 0, loop or 0, token.number]
    while fields and not fields[-1]:
        fields.pop()
    return [token.key, token.node_id, token.scope, token.phase, *fields]


def _read(fields: list[Any]) -> Token:
    key, node_id, scope, phase, variables, flags, arrived, loop, number = fields + NO_FIELDS[len(fields) :]
    return Token(
        key, node_id, scope, PHASES[phase],
        has_incident=bool(flags & 1), is_interrupted=bool(flags & 2),
        variables=variables or {}, arrived=arrived or [], loop=LoopState(*loop) if loop else None, number=number,
    )  # fmt: skip
