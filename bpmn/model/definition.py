"""The compiled form of a model: immutable nodes with all data that a step reads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.feel import Expression

PATH = re.compile(r"\s*([^\W\d]\w*)(?:\.\w+)*\s*")


class NodeKind(StrEnum):
    """The kinds of nodes by behaviour; several BPMN elements may have the same kind."""

    # The hash is fast, because the node's kind is looked up each time that a token enters a node.
    __hash__ = str.__hash__

    PROCESS = auto()
    START = auto()
    END = auto()
    PASS = auto()  # The token passes manual tasks, tasks without a type, and throw events without a trigger.
    SCRIPT = auto()
    SERVICE = auto()  # A handler does the work of service, send and business rule tasks, and of thrown messages.
    USER = auto()
    RECEIVE = auto()
    CATCH = auto()
    THROW = auto()  # A thrown signal or escalation.
    BOUNDARY = auto()
    EXCLUSIVE = auto()
    PARALLEL = auto()
    INCLUSIVE = auto()
    EVENT_BASED = auto()
    SUBPROCESS = auto()
    EVENT_SUBPROCESS = auto()
    CALL = auto()


SCOPES = frozenset({NodeKind.PROCESS, NodeKind.SUBPROCESS, NodeKind.EVENT_SUBPROCESS})


class TimerKind(StrEnum):
    """The kinds of times for a timer event in BPMN; an event has exactly one kind."""

    DATE = auto()
    DURATION = auto()
    CYCLE = auto()


@dataclass(frozen=True, slots=True)
class TimerTrigger:
    """A timer event; its time is a literal, or FEEL that is evaluated when a token enters the event's scope."""

    kind: TimerKind
    text: Text


@dataclass(frozen=True, slots=True)
class MessageTrigger:
    """A message event.

    `correlation` is the expression of the correlation key; None for a start event.
    """

    name: Text
    correlation: Expression | None = None


@dataclass(frozen=True, slots=True)
class SignalTrigger:
    """A signal event; the engine sends a signal to all tokens that wait for its name."""

    name: Text


@dataclass(frozen=True, slots=True)
class ErrorTrigger:
    """An error event; a catching event without a code catches every error."""

    code: str | None


@dataclass(frozen=True, slots=True)
class EscalationTrigger:
    """An escalation event; a catching event without a code catches every escalation."""

    code: str | None


@dataclass(frozen=True, slots=True)
class TerminateTrigger:
    """An end event that terminates its whole scope."""


@dataclass(frozen=True, slots=True)
class UnknownTrigger:
    """The placeholder for a trigger that the reader has not read, or can't read."""


Trigger = (
    TimerTrigger | MessageTrigger | SignalTrigger | ErrorTrigger | EscalationTrigger | TerminateTrigger | UnknownTrigger
)


@dataclass(frozen=True, slots=True)
class Flow:
    """A sequence flow. A token always takes a flow without a condition."""

    flow_id: str
    source: str
    target: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """An input or output mapping.

    `target` is the variable's name and the path inside the variable's value.
    """

    target: tuple[str, ...]
    source: Text


@dataclass(frozen=True, slots=True)
class MultiInstance:
    """A multi-instance activity, which is executed once per item, in sequence or in parallel.

    shape:   either `items` (a list) or `count` (a number) is set
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
        """Return the variable that holds an execution's result; None if `output_item` is not a variable or a path."""
        found = PATH.fullmatch(self.output_item.text) if self.output_item else None
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class ServiceWork:
    """The work of a service task; `task_type` names a handler, an endpoint or a topic."""

    task_type: Text
    retries: Text | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class UserWork:
    """The work of a user task, and its candidates."""

    assignee: Text | None = None
    candidate_groups: Text | None = None
    candidate_users: Text | None = None
    due_date: Text | None = None
    form_key: Text | None = None


@dataclass(frozen=True, slots=True)
class ScriptWork:
    """The work of a script task: a FEEL expression, and the variable that receives the value of the expression."""

    expression: Expression
    result_name: str | None


@dataclass(frozen=True, slots=True)
class CallWork:
    """The work of a call activity: the called process, and whether all variables are passed to the child and back."""

    process_id: Text
    passes_all_in: bool = True
    passes_all_out: bool = True


Work = ServiceWork | UserWork | ScriptWork | CallWork


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One element of a process that a token can enter.

    shape:   `scope_id` is the id of the containing node, "" for the process. `incoming` holds ids of flows. Only scopes
             have `starts` (their start events), `start` (the start event of a new token) and `event_subprocesses`. Only
             activities have `boundaries`
    """

    node_id: str
    kind: NodeKind
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
    loop: MultiInstance | None = None
    work: Work | None = None
    starts: tuple[str, ...] = ()
    start: str | None = None
    event_subprocesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """One executable process of a model.

    shape:   `nodes` maps ids to nodes, and includes the node of the process. `starts` are the start events with a
             trigger. `joins` maps the id of a flow to the join at the flow's end. `upstream` maps each inclusive join
             to the nodes of its scope from which a token can reach the join. Each such node has a bit mask with one bit
             per flow in the join's `incoming`
    """

    process_id: str
    name: str
    nodes: Mapping[str, FlowNode]
    starts: tuple[str, ...]
    joins: Mapping[str, FlowNode]
    upstream: Mapping[str, Mapping[str, int]]

    @property
    def root(self) -> FlowNode:
        """Return the node of the process itself."""
        return self.nodes[self.process_id]
