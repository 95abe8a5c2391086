"""Write BPMN models in a few lines, and run instances of them step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from shardclock_server.bpmn.model import Definition, read_model
from shardclock_server.bpmn.step import Instance, advance, begin, read_state, write_state
from shardclock_server.bpmn.step.effects import (
    ChildOpened,
    Effect,
    EscalationThrown,
    IncidentRaised,
    IncidentResolved,
    InstanceEnded,
    MessageOpened,
    ServiceTaskOpened,
    SignalOpened,
    SignalThrown,
    TaskOpened,
    TimerOpened,
    TokenChange,
    TokenChanged,
    WaitClosed,
)
from shardclock_server.bpmn.step.signals import ActivityCompleted, Continued, EventOccurred, Retried, Signal
from shardclock_server.feel import Json

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    ' xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" xmlns:camunda="http://camunda.org/schema/1.0/bpmn">'
)
# Messages, signals, errors and escalations of a model, for the argument `beside`.
SHARED = (
    '<message id="m" name="paid"><extensionElements><zeebe:subscription correlationKey="=order"/></extensionElements>'
    '</message><signal id="g" name="stop"/><error id="x" errorCode="E1"/><error id="y" errorCode="E2"/>'
    '<escalation id="c" escalationCode="C1"/>'
)
FLOW = re.compile(r"([^\s>\[]+)>([^\s\[]+)(?:\[([^\]]*)\])?")
MARKS = {TokenChange.ENTERED: "+", TokenChange.LEFT: "-", TokenChange.TERMINATED: "x"}
Opened = TimerOpened | MessageOpened | SignalOpened | ServiceTaskOpened | TaskOpened | ChildOpened


def flows(text: str) -> str:
    """Write sequence flows, given as `a>b`, or with a condition as `a>b[x > 1]`; the id of a flow is `a-b`."""
    return "".join(_flow(*found) for found in FLOW.findall(text))


def _flow(source: str, target: str, condition: str) -> str:
    escaped = condition.replace("&", "&amp;").replace("<", "&lt;")
    inside = f"<conditionExpression>={escaped}</conditionExpression>" if condition else ""
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}">{inside}</sequenceFlow>'


def model(elements: str, *, connected: str = "", beside: str = "", process_id: str = "p") -> bytes:
    """Write a model of one process; `beside` is the XML of its messages, signals, errors and escalations."""
    process = f'<process id="{process_id}" isExecutable="true">{elements}{flows(connected)}</process>'
    return f"{HEAD}{beside}{process}</definitions>".encode()


def definition(elements: str, *, connected: str = "", beside: str = "") -> Definition:
    return read_model(model(elements, connected=connected, beside=beside))[0]


def job(node_id: str, inside: str = "", *, tag: str = "serviceTask", retries: str | None = None) -> str:
    attempts = "" if retries is None else f' retries="{retries}"'
    extensions = f'<extensionElements><zeebe:taskDefinition type="{node_id}"{attempts}/></extensionElements>'
    return f'<{tag} id="{node_id}">{extensions}{inside}</{tag}>'


def boundary(node_id: str, of: str, event: str, *, interrupts: bool = True) -> str:
    cancels = str(interrupts).lower()
    return f'<boundaryEvent id="{node_id}" attachedToRef="{of}" cancelActivity="{cancels}">{event}</boundaryEvent>'


def event_subprocess(node_id: str, event: str, inside: str = "", *, interrupts: bool = True) -> str:
    """Write an event sub-process: its start event has the sub-process's id plus an s, its job has the id plus a j."""
    start = f'<startEvent id="{node_id}s" isInterrupting="{str(interrupts).lower()}">{event}</startEvent>'
    flow = f'<sequenceFlow id="{node_id}f" sourceRef="{node_id}s" targetRef="{node_id}j"/>'
    return f'<subProcess id="{node_id}" triggeredByEvent="true">{start}{job(node_id + "j")}{flow}{inside}</subProcess>'


def timer(kind: str, text: str) -> str:
    return f"<timerEventDefinition><{kind}>{text}</{kind}></timerEventDefinition>"


class Played:
    """An instance that a test runs step by step; each step's state is written and read again.

    shape:   `history` has a word for each time that a token entered (`a+`) or left (`a-`) a node, or was terminated at
             a node (`ax`). With `by_node`, each step enters only one node; the next step enters the next node
    """

    def __init__(
        self, played: Definition, variables: Mapping[str, Json] | None = None, *, by_node: bool = False, **begun: object
    ) -> None:
        self.definition = played
        self.parts = 0
        self._by_node = by_node
        self.history: list[str] = []
        self.open: dict[tuple[int, str], Opened] = {}
        self.incidents: dict[int, IncidentRaised] = {}
        self.thrown: list[SignalThrown] = []
        self.escalated: list[str] = []
        self.ended: InstanceEnded | None = None
        instance, step = begin(played, variables or {}, now=NOW, may_continue=self._goes_on, **begun)  # type: ignore[arg-type]
        self.state = write_state(instance)
        self._follow(step.effects)
        self._take_rest()

    @property
    def instance(self) -> Instance:
        """Read the written state, as an engine does for each signal."""
        return read_state(self.state)

    @property
    def result(self) -> InstanceEnded:
        assert self.ended, f"it still waits for {self.waits}"
        return self.ended

    @property
    def waits(self) -> list[str]:
        return [node_id for _, node_id in self.open]

    def send(self, signal: Signal) -> bool:
        """Send a signal; return False for a stale signal, which changes nothing."""
        instance = self.instance
        step = advance(self.definition, instance, signal, now=NOW, may_continue=self._goes_on)
        if step.is_stale:
            assert not step.effects
            assert write_state(instance) == self.state
            return False
        self.state = write_state(instance)
        self._follow(step.effects)
        self._take_rest()
        return True

    def _goes_on(self, _chars: int) -> bool:
        return not self._by_node

    def _take_rest(self) -> None:
        while (instance := self.instance).continuation:
            self.parts += 1
            step = advance(self.definition, instance, Continued(), now=NOW, may_continue=self._goes_on)
            self.state = write_state(instance)
            self._follow(step.effects)

    def token(self, node_id: str) -> int:
        return next(token for token, waiting in self.open if waiting == node_id)

    def trigger(self, node_id: str, **variables: Json) -> bool:
        """Send the timer, message or signal for which a node waits."""
        return self.send(EventOccurred(self.token(node_id), node_id, variables))

    def complete(self, node_id: str, **variables: Json) -> bool:
        return self.send(ActivityCompleted(self.token(node_id), variables))

    def retry(self) -> bool:
        (token,) = self.incidents
        return self.send(Retried(token))

    def _follow(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case TokenChanged(_, node_id, change):
                    self.history.append(f"{node_id}{MARKS[change]}")
                case WaitClosed(token, node_id, _):
                    gone = [key for key in self.open if key[0] == token and node_id in (None, key[1])]
                    for key in gone:
                        del self.open[key]
                case EscalationThrown(code):
                    self.escalated.append(code)
                case IncidentRaised(token):
                    self.incidents[token] = effect
                case IncidentResolved(token):
                    del self.incidents[token]
                case SignalThrown():
                    self.thrown.append(effect)
                case InstanceEnded():
                    self.ended = effect
                case _:
                    self.open[effect.token, effect.node_id] = effect
