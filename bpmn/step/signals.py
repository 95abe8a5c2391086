"""Define what can happen to an instance.

A signal that is for a token says which: the token's key, and the node that waits, which is another than the token's own
where a boundary event or the start of an event sub-process waits for the token. A signal whose token is gone, or waits
no more, is stale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shardclock_server.bpmn.step.state import NO_VARIABLES
from shardclock_server.feel import Json

Variables = Mapping[str, Json]


class Happened(NamedTuple):
    """A timer is due, a message has come or a signal was thrown, for which a node has waited."""

    token: int
    node_id: str
    variables: Variables = NO_VARIABLES


class Completed(NamedTuple):
    """Somebody has done what a task asked for, or a child process has ended."""

    token: int
    variables: Variables = NO_VARIABLES


class Failed(NamedTuple):
    """Nobody could do what a task asked for, and it is not tried again."""

    token: int
    reason: str


class ErrorThrown(NamedTuple):
    """A task, or a child process, has thrown an error of BPMN."""

    token: int
    code: str
    reason: str = ""
    variables: Variables = NO_VARIABLES


class Escalated(NamedTuple):
    """A child process has thrown an escalation, and goes on."""

    token: int
    code: str


class Retried(NamedTuple):
    """Somebody has resolved an incident, so the token goes on where it stopped."""

    token: int


class VariablesSet(NamedTuple):
    """Somebody has set variables, at a token's own scope."""

    token: int
    variables: Variables


class Moved(NamedTuple):
    """Somebody has moved tokens: some are terminated, and at other nodes new ones begin."""

    terminated: tuple[int, ...] = ()
    begun: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Continued:
    """An instance goes on with what its last step had no time for."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody has cancelled the instance."""


Signal = (
    Happened | Completed | Failed | ErrorThrown | Escalated | Retried | VariablesSet | Moved | Continued | CancelAsked
)
