"""Define what follows from a step for the world outside the instance.

A step makes many of them, so each is a tuple: a tuple of four fields is made three times as fast as a frozen dataclass.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum, auto
from typing import NamedTuple

from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.step.state import NO_VARIABLES, Catches
from shardclock_server.feel import Json


class Change(StrEnum):
    """Name what happened to a token at a node."""

    ENTERED = auto()
    LEFT = auto()
    TERMINATED = auto()


class Outcome(StrEnum):
    """Name how an instance ended."""

    COMPLETED = auto()
    CANCELED = auto()
    ERROR = auto()  # it is a child, and its caller catches the error or doesn't


class Passed(NamedTuple):
    """A line of the history: a token entered a node, left it, or was terminated there."""

    token: int
    node_id: str
    change: Change


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
    """A service task waits for whoever does those of its type."""

    token: int
    node_id: str
    task_type: str
    retries: int | None
    headers: tuple[tuple[str, str], ...]
    variables: Mapping[str, Json]


class TaskOpened(NamedTuple):
    """A task waits for a person."""

    token: int
    node_id: str
    assignee: str | None
    candidate_groups: tuple[str, ...]
    candidate_users: tuple[str, ...]
    due_date: datetime | None
    form_key: str | None


class ChildOpened(NamedTuple):
    """A call activity waits for a child process; `depth` is how many wait above that, `catches` what they catch."""

    token: int
    node_id: str
    process_id: str
    variables: Mapping[str, Json]
    depth: int
    catches: Catches


class WaitClosed(NamedTuple):
    """A token waits no more: its timers, subscriptions, tasks and child are to go; or those of one node alone."""

    token: int
    node_id: str | None = None
    at: str = ""  # the token's own node, if all of its waits go


class SignalThrown(NamedTuple):
    """Whoever waits for a signal of this name gets it."""

    name: str
    variables: Mapping[str, Json]


class EscalationThrown(NamedTuple):
    """The instance is a child in which nobody catches this escalation: its caller may; the child goes on."""

    code: str


class IncidentRaised(NamedTuple):
    """A token can't go on until somebody has changed something and says so."""

    token: int
    node_id: str
    sentence: str


class IncidentResolved(NamedTuple):
    """A token that couldn't go on goes on."""

    token: int


class Ended(NamedTuple):
    """The instance is over; `variables` are those of the process, `thrown` those of the error that ended it."""

    outcome: Outcome
    variables: Mapping[str, Json]
    error_code: str | None = None
    thrown: Mapping[str, Json] = NO_VARIABLES


Effect = (
    Passed | TimerOpened | MessageOpened | SignalOpened | ServiceTaskOpened | TaskOpened | ChildOpened | WaitClosed
    | SignalThrown | EscalationThrown | IncidentRaised | IncidentResolved | Ended
)  # fmt: skip
