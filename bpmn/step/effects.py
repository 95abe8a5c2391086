"""The effects of a step outside the instance.

A step makes many effects, so each effect is a tuple: creating a tuple of four fields is three times as fast as creating
a frozen dataclass.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum, auto
from typing import NamedTuple

from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.step.state import NO_VARIABLES, Catches
from shardclock_server.feel import Json


class TokenChange(StrEnum):
    """An event in the history of a token at a node."""

    ENTERED = auto()
    LEFT = auto()
    TERMINATED = auto()


class Outcome(StrEnum):
    """How an instance ended."""

    COMPLETED = auto()
    CANCELED = auto()
    ERROR = auto()  # a child ended with an error, which a caller may catch


class TokenChanged(NamedTuple):
    """A line of the history: a token entered a node, left it, or was terminated there."""

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
    """A service task waits for the handler, endpoint or program of its type."""

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
    """A call activity waits for a child process with `depth` callers, which catch the errors in `catches`."""

    token: int
    node_id: str
    process_id: str
    variables: Mapping[str, Json]
    depth: int
    catches: Catches


class WaitClosed(NamedTuple):
    """A token's waits end: its timers, subscriptions, tasks and child are removed; with `node_id`, one node's waits."""

    token: int
    node_id: str | None = None
    at: str = ""  # the token's own node, if all its waits end because `node_id` is None


class SignalThrown(NamedTuple):
    """All tokens that wait for a signal of this name receive it."""

    name: str
    variables: Mapping[str, Json]


class EscalationThrown(NamedTuple):
    """A child process did not catch this escalation, so a caller may catch it; the child continues."""

    code: str


class IncidentRaised(NamedTuple):
    """A token is stopped until an operator corrects the cause and resolves the incident."""

    token: int
    node_id: str
    sentence: str


class IncidentResolved(NamedTuple):
    """An operator has resolved the token's incident, so the token continues."""

    token: int


class InstanceEnded(NamedTuple):
    """The instance has ended; `variables` are its own variables, `thrown` are the variables of its BPMN error."""

    outcome: Outcome
    variables: Mapping[str, Json]
    error_code: str | None = None
    thrown: Mapping[str, Json] = NO_VARIABLES


Effect = (
    TokenChanged | TimerOpened | MessageOpened | SignalOpened | ServiceTaskOpened | TaskOpened | ChildOpened
    | WaitClosed | SignalThrown | EscalationThrown | IncidentRaised | IncidentResolved | InstanceEnded
)  # fmt: skip
