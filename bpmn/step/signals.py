"""The signals that advance an instance.

A signal for a token contains the token's key and the id of the waiting node. If the waiting node is a boundary event or
the start of an event sub-process, the token is at another node. A signal is stale if its token is gone or no longer
waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shardclock_server.bpmn.step.state import NO_VARIABLES
from shardclock_server.feel import Json

Variables = Mapping[str, Json]


class EventOccurred(NamedTuple):
    """An event for a waiting node has occurred: a timer was due, a message arrived, or a signal was thrown."""

    token: int
    node_id: str
    variables: Variables = NO_VARIABLES


class ActivityCompleted(NamedTuple):
    """A client or a handler has completed a task, or a child process has ended."""

    token: int
    variables: Variables = NO_VARIABLES


class ActivityFailed(NamedTuple):
    """A task has failed in its last attempt."""

    token: int
    reason: str


class ErrorThrown(NamedTuple):
    """A task or a child process has thrown an error of BPMN."""

    token: int
    code: str
    reason: str = ""
    variables: Variables = NO_VARIABLES


class Escalated(NamedTuple):
    """A child process has thrown an escalation; the child continues."""

    token: int
    code: str


class Retried(NamedTuple):
    """An operator has resolved an incident, so the token continues where it stopped."""

    token: int


class VariablesSet(NamedTuple):
    """A client has set variables in the scope of a token."""

    token: int
    variables: Variables


class Moved(NamedTuple):
    """A client has moved tokens: some tokens are terminated, and new tokens are created at other nodes."""

    terminated: tuple[int, ...] = ()
    begun: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Continued:
    """The instance executes the work that the last step left."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A client has cancelled the instance."""


Signal = (
    EventOccurred
    | ActivityCompleted
    | ActivityFailed
    | ErrorThrown
    | Escalated
    | Retried
    | VariablesSet
    | Moved
    | Continued
    | CancelAsked
)
