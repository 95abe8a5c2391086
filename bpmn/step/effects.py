"""The effects of a step outside the instance.

Each effect is a tuple, because a step creates many effects, and a tuple is created three times as fast as a frozen
dataclass.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum, auto
from typing import NamedTuple

from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.step.state import NO_VARIABLES, Catches
from shardclock_server.feel import Json


class TokenChange(StrEnum):
    """The kinds of moves in the history of a token at a node."""

    ENTERED = auto()
    LEFT = auto()
    TERMINATED = auto()


class Outcome(StrEnum):
    """The possible outcomes of an instance."""

    COMPLETED = auto()
    CANCELED = auto()
    ERROR = auto()  # A child ended with an error that a caller may catch.


class TokenChanged(NamedTuple):
    """A line of the history: a token has entered a node, left the node, or was terminated at the node."""

    token: int
    node_id: str
    change: TokenChange


class TimerOpened(NamedTuple):
    """A node waits for a timer; `text` is a date, a duration or a cycle that `timers` can read."""

    token: int
    node_id: str
    kind: TimerKind
    text: str


class MessageOpened(NamedTuple):
    """A node waits for a message with a name and a correlation key."""

    token: int
    node_id: str
    name: str
    correlation: str


class SignalOpened(NamedTuple):
    """A node waits for a signal with a name."""

    token: int
    node_id: str
    name: str


class ServiceTaskOpened(NamedTuple):
    """A service task waits for the handler, endpoint or program that its type names."""

    token: int
    node_id: str
    task_type: str
    retries: int | None
    headers: tuple[tuple[str, str], ...]
    variables: Mapping[str, Json]


class TaskOpened(NamedTuple):
    """A user task waits for a person."""

    token: int
    node_id: str
    assignee: str | None
    candidate_groups: tuple[str, ...]
    candidate_users: tuple[str, ...]
    due_date: datetime | None
    form_key: str | None


class ChildOpened(NamedTuple):
    """A call activity waits for a child process.

    `depth` is the number of the child's callers, and `catches` are the errors and escalations that the callers catch.
    """

    token: int
    node_id: str
    process_id: str
    variables: Mapping[str, Json]
    depth: int
    catches: Catches


class WaitClosed(NamedTuple):
    """All waits of a token (for timers, messages, signals, tasks or a child) end, or only the waits of `node_id`."""

    token: int
    node_id: str | None = None
    at: str = ""  # The node of the token, if `node_id` is None and all waits of the token end.


class SignalThrown(NamedTuple):
    """All tokens that wait for a signal of this name receive it."""

    name: str
    variables: Mapping[str, Json]


class EscalationThrown(NamedTuple):
    """A child process has thrown an escalation that a caller may catch; the child continues."""

    code: str


class IncidentRaised(NamedTuple):
    """A token has an incident, so the token stops until an operator resolves the incident."""

    token: int
    node_id: str
    sentence: str


class IncidentResolved(NamedTuple):
    """The incident of a token is resolved, so the token continues."""

    token: int


class InstanceEnded(NamedTuple):
    """The instance has ended.

    `variables` are the variables of the process, `thrown` are the variables of the thrown error.
    """

    outcome: Outcome
    variables: Mapping[str, Json]
    error_code: str | None = None
    thrown: Mapping[str, Json] = NO_VARIABLES


Effect = (
    TokenChanged | TimerOpened | MessageOpened | SignalOpened | ServiceTaskOpened | TaskOpened | ChildOpened
    | WaitClosed | SignalThrown | EscalationThrown | IncidentRaised | IncidentResolved | InstanceEnded
)  # fmt: skip
