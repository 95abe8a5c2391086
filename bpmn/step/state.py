"""Hold what is known of an instance: its tokens, each at a node, and the variables of their scopes.

The process itself is the first token. A token at a scope, such as a sub-process, contains the tokens inside it. Each
token has a key that is never used again, so that whoever answers a token that is gone is noticed.
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
# Of the written state. Raise it with each change that an older `read_state` would misread or lose: it then leaves the
# state to a newer engine.
FORMAT = 1
NO_VARIABLES: Mapping[str, Json] = MappingProxyType({})
FIELDS = 9  # of a written token
NO_FIELDS = [0] * FIELDS


class Catches(NamedTuple):
    """What the callers of a child catch, the nearest first.

    shape:   each is a code, None for every code, and whether catching it interrupts the call
    """

    errors: tuple[tuple[str | None, bool], ...] = ()
    escalations: tuple[tuple[str | None, bool], ...] = ()

    def has_error(self, code: str | None) -> bool:
        """Say whether some caller catches an error."""
        return any(caught in (None, code) for caught, _ in self.errors)

    def ends_at(self, escalation: str) -> bool:
        """Say whether the nearest caller that catches an escalation interrupts its call, which ends the child."""
        return next((interrupts for caught, interrupts in self.escalations if caught in (None, escalation)), False)


NO_CATCHES = Catches()


class Phase(IntEnum):
    """Say how far a token has come at its node. A token with an incident goes on from its phase when it is retried."""

    ENTERED = 0
    HAS_INPUTS = 1  # its input mappings are done
    IS_WATCHED = 2  # and its boundary events wait
    WAITS = 3  # and its behaviour has begun, and waits
    IS_DONE = 4  # its behaviour is done; its output mappings are not
    LEAVES = 5  # they are; its outgoing flows are to be chosen


PHASES = tuple(Phase)


@dataclass(slots=True)
class LoopState:
    """How far a multi-instance activity has come.

    shape:   `outputs` has a value for each item; `next` is the number of items that have begun; `is_enough`: its
             completion condition holds, so no more begin
    """

    items: list[Json]
    outputs: list[Json]
    next: int = 0
    is_enough: bool = False


@dataclass(slots=True)
class Token:
    """One execution of one node.

    shape:   `scope` is the key of the token that contains it, 0 for the process. `arrived` are flows whose tokens wait
             at a join inside this scope. `number` tells the executions of a multi-instance activity apart, from 1
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


class Entry(NamedTuple):
    """A node that a token is about to enter.

    shape:   `results` are those of an event that has already happened there; `number` tells the executions of a
             multi-instance activity apart, from 1
    """

    node_id: str
    scope: int
    results: Mapping[str, Json] | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """What a step left for the next one, because it had gone on for long enough.

    shape:   `touched` are keys of scopes in which a token ended or arrived at a join; `entered` counts the nodes that
             were entered since the instance last had nothing to go on with
    """

    entries: tuple[Entry, ...]
    touched: tuple[int, ...]
    entered: int


@dataclass(slots=True)
class Instance:
    """All tokens of an instance, by their keys; none when it has ended.

    shape:   `depth` is how many call activities wait above it, 0 if nobody has called it; `start` is the start event at
             which it began, None for the one without a trigger; `rest` is None if its tokens wait; `catches` is empty
             without a caller
    """

    tokens: dict[int, Token] = field(default_factory=dict)
    next_key: int = ROOT
    depth: int = 0
    start: str | None = None
    rest: Rest | None = None
    catches: Catches = NO_CATCHES

    @property
    def is_child(self) -> bool:
        """Say whether a call activity of another instance waits for it."""
        return self.depth > 0

    def children(self, key: int) -> list[Token]:
        """List the tokens directly inside a scope."""
        return [token for token in self.tokens.values() if token.scope == key]


class StateTooLarge(ValueError):
    """Refuse to keep what is larger than an instance may be."""


class StateTooNew(ValueError):
    """Refuse to read what a newer release has written."""


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
    if rest := instance.rest:
        fields["r"] = [rest.entries, rest.touched, rest.entered]
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    if len(text) > STATE_BYTES_MAX // 4 and len(text.encode()) > STATE_BYTES_MAX:
        raise StateTooLarge(
            f"the instance has {len(text.encode()):,} bytes of state, and may have {STATE_BYTES_MAX:,};"
            " keep large values elsewhere, and their keys in variables"
        )
    return text


def read_state(text: str) -> Instance:
    """Read what `write_state` wrote.

    errors:  StateTooNew  leave it to a newer release
    """
    stored = json.loads(text)
    if (written := stored["f"]) > FORMAT:
        raise StateTooNew(f"the instance's state is of format {written}, and this release reads {FORMAT} at most")
    tokens = {fields[0]: _read(fields) for fields in stored["t"]}
    rest = None
    if "r" in stored:
        entries, touched, entered = stored["r"]
        rest = Rest(tuple(Entry(*entry) for entry in entries), tuple(touched), entered)
    catches = read_catches(stored.get("x"))
    return Instance(tokens, stored["k"], depth=stored["c"], start=stored["s"], rest=rest, catches=catches)


def read_catches(stored: Any) -> Catches:
    """Read the list of a child's callers from JSON; it is left out if they catch nothing."""
    if stored is None:
        return NO_CATCHES
    errors, escalations = (tuple((code, bool(interrupts)) for code, interrupts in each) for each in stored)
    return Catches(errors, escalations)


def _written(token: Token) -> list[object]:
    """Write a token: what most tokens don't have is left out, from the end."""
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
