"""The compiled form of a model: frozen nodes with everything that a step reads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.feel import Expression

PATH = re.compile(r"\s*([^\W\d]\w*)(?:\.\w+)*\s*")


class NodeKind(StrEnum):
    """A node's behaviour; several elements of BPMN may have the same behaviour."""

    # a fast hash, because a step looks up the kind of each node that a token enters
    __hash__ = str.__hash__

    PROCESS = auto()
    START = auto()
    END = auto()
    PASS = auto()  # manual tasks, tasks without a type, and events that throw nothing
    SCRIPT = auto()
    SERVICE = auto()  # service, send and business rule tasks, and thrown messages: a handler does the work
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


SCOPES = frozenset({NodeKind.PROCESS, NodeKind.SUBPROCESS, NodeKind.EVENT_SUBPROCESS})


class TimerKind(StrEnum):
    """The three kinds of a timer's time in BPMN; an event has exactly one."""

    DATE = auto()
    DURATION = auto()
    CYCLE = auto()


@dataclass(frozen=True, slots=True)
class TimerTrigger:
    """A timer event; its time is a literal, or a FEEL expression that is evaluated when the scope is entered."""

    kind: TimerKind
    text: Text


@dataclass(frozen=True, slots=True)
class MessageTrigger:
    """A message event. `correlation` evaluates to the message's correlation key; a start event has none."""

    name: Text
    correlation: Expression | None = None


@dataclass(frozen=True, slots=True)
class SignalTrigger:
    """A signal event: all tokens that wait for the name receive the signal."""

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
    """A trigger that the reader can't interpret. Its model is refused."""


Trigger = (
    TimerTrigger | MessageTrigger | SignalTrigger | ErrorTrigger | EscalationTrigger | TerminateTrigger | UnknownTrigger
)


@dataclass(frozen=True, slots=True)
class Flow:
    """A sequence flow. A flow without a condition is always taken."""

    flow_id: str
    source: str
    target: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """An input or output mapping. `target` has the variable's name and then the path inside the variable's value."""

    target: tuple[str, ...]
    source: Text


@dataclass(frozen=True, slots=True)
class MultiInstance:
    """A multi-instance activity: one execution per item, in sequence or in parallel.

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
        """Return the variable that holds an execution's result; None: `output_item` is a computed expression."""
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
    """A FEEL expression whose value becomes a variable."""

    expression: Expression
    result_name: str | None


@dataclass(frozen=True, slots=True)
class CallWork:
    """A call of another process; it may pass all variables to the child and return all of the child's variables."""

    process_id: Text
    passes_all_in: bool = True
    passes_all_out: bool = True


Work = ServiceWork | UserWork | ScriptWork | CallWork


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One element of a process at which a token can stand.

    shape:   `scope_id` is the containing node, "" for the process. `incoming` holds ids of flows. A scope has `starts`
             (its start events), `start` (the start event at which a token begins), and `event_subprocesses`. An
             activity has `boundaries`
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

    shape:   `nodes` by id, including the process's own. `starts` are the start events with a trigger. `joins` maps a
             flow's id to the join that it leads to. `upstream` has, for each inclusive join, the nodes of its scope
             from which a token can reach it, with one bit per flow of the join's `incoming`
    """

    process_id: str
    name: str
    nodes: Mapping[str, FlowNode]
    starts: tuple[str, ...]
    joins: Mapping[str, FlowNode]
    upstream: Mapping[str, Mapping[str, int]]

    @property
    def root(self) -> FlowNode:
        """Return the process's own node."""
        return self.nodes[self.process_id]
