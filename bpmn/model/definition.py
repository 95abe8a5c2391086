"""Define what a model becomes: nodes with all that the step needs to know, frozen."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.feel import Expression

PATH = re.compile(r"\s*([^\W\d]\w*)(?:\.\w+)*\s*")


class Kind(StrEnum):
    """Name how a node behaves, which several elements of BPMN may share."""

    __hash__ = str.__hash__  # an Enum's own is slower, and each node that a token enters is looked up by its kind

    PROCESS = auto()
    START = auto()
    END = auto()
    PASS = auto()  # a manual task, a task without a type, an event that throws nothing
    SCRIPT = auto()
    SERVICE = auto()  # service, send and business rule tasks, and messages that are thrown: somebody else does the work
    USER = auto()
    RECEIVE = auto()
    CATCH = auto()
    THROW = auto()  # a signal or an escalation
    BOUNDARY = auto()
    EXCLUSIVE = auto()
    PARALLEL = auto()
    INCLUSIVE = auto()
    EVENT_BASED = auto()
    SUBPROCESS = auto()
    EVENT_SUBPROCESS = auto()
    CALL = auto()


SCOPES = frozenset({Kind.PROCESS, Kind.SUBPROCESS, Kind.EVENT_SUBPROCESS})


class TimerKind(StrEnum):
    """Name the three ways in which BPMN says when; an event has exactly one."""

    DATE = auto()
    DURATION = auto()
    CYCLE = auto()


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer event: when it is due, as it is written or as FEEL finds it when its scope is entered."""

    kind: TimerKind
    text: Text


@dataclass(frozen=True, slots=True)
class Message:
    """A message event. `correlation` finds the key that a message must bring; a start event has none."""

    name: Text
    correlation: Expression | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal event: whoever waits for the name gets it."""

    name: Text


@dataclass(frozen=True, slots=True)
class Error:
    """An error event; a catching one without a code catches every error."""

    code: str | None


@dataclass(frozen=True, slots=True)
class Escalation:
    """An escalation event; a catching one without a code catches every escalation."""

    code: str | None


@dataclass(frozen=True, slots=True)
class Terminate:
    """An end event that ends its whole scope."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event with a trigger that can't be read. Its model is refused."""


Trigger = Timer | Message | Signal | Error | Escalation | Terminate | Unknown


@dataclass(frozen=True, slots=True)
class Flow:
    """A sequence flow. Without a condition it is always taken."""

    flow_id: str
    source: str
    target: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A mapping of an input or output: `target` is the variable's name, with dots for what lies inside it."""

    target: tuple[str, ...]
    source: Text


@dataclass(frozen=True, slots=True)
class Loop:
    """A multi-instance activity: one execution for each item, one after the other or all at once.

    shape:   exactly one of `items` (a list) and `count` (a number) is there
    """

    is_sequential: bool
    items: Expression | None
    count: Text | None = None
    item_name: str | None = None
    output_name: str | None = None
    output_item: Expression | None = None
    completion: Expression | None = None

    @property
    def result_name(self) -> str | None:
        """Name the variable that holds an execution's result; None if the result is computed from others."""
        found = PATH.fullmatch(self.output_item.text) if self.output_item else None
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class ServiceWork:
    """What somebody else does: `task_type` names the handler, the endpoint or the topic."""

    task_type: Text
    retries: Text | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class UserWork:
    """What a person does, and who may."""

    assignee: Text | None = None
    candidate_groups: Text | None = None
    candidate_users: Text | None = None
    due_date: Text | None = None
    form_key: Text | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A FEEL expression whose value becomes a variable."""

    expression: Expression
    result_name: str | None


@dataclass(frozen=True, slots=True)
class Call:
    """Another process, started as a child. It may get all variables that are seen, and give all of its own back."""

    process_id: Text
    passes_all_in: bool = True
    passes_all_out: bool = True


Work = ServiceWork | UserWork | Script | Call


@dataclass(frozen=True, slots=True)
class Node:
    """One element that a token can be at.

    shape:   `scope_id` names the node that contains it, "" for the process; `incoming` are ids of flows. A scope has
             `starts`, its start events, `start`, the one at which a token begins, and `event_subprocesses`; an activity
             has `boundaries`
    """

    node_id: str
    kind: Kind
    tag: str
    name: str
    scope_id: str
    incoming: tuple[str, ...] = ()
    outgoing: tuple[Flow, ...] = ()
    default_flow: str | None = None
    trigger: Trigger | None = None
    is_interrupting: bool = True
    attached_to: str | None = None
    boundaries: tuple[str, ...] = ()
    inputs: tuple[Assignment, ...] = ()
    outputs: tuple[Assignment, ...] = ()
    loop: Loop | None = None
    work: Work | None = None
    starts: tuple[str, ...] = ()
    start: str | None = None
    event_subprocesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """A process that can be run.

    shape:   `nodes` by their ids, the process's own among them; `starts` are the start events with a trigger;
             `joins` has the join to which a flow leads, by the flow's id; `upstream` has for each inclusive join the
             nodes of its scope from which it can be reached, with a bit for each of the join's `incoming` by which
    """

    process_id: str
    name: str
    nodes: Mapping[str, Node]
    starts: tuple[str, ...]
    joins: Mapping[str, Node]
    upstream: Mapping[str, Mapping[str, int]]

    @property
    def root(self) -> Node:
        """Return the process's own node."""
        return self.nodes[self.process_id]
