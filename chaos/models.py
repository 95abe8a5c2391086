"""The processes of a chaos run, and the ways through each: what an instance must have done by its end, in which order.

The ways are written by hand beside each model, and share nothing with the engine that runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.support.bpmn import boundary, model, timer

START, END = '<startEvent id="start"/>', '<endEvent id="end"/>'
MESSAGE = "chaos-paid"
_PAID = (
    f'<message id="paid-message" name="{MESSAGE}"><extensionElements>'
    '<zeebe:subscription correlationKey="=order"/></extensionElements></message>'
)


def _counts(node_id: str) -> str:
    """Write a script that counts that it ran: one that is lost, or runs twice, is seen in the instance's result."""
    script = '<zeebe:script expression="=n + 1" resultVariable="n"/>'
    return f'<scriptTask id="{node_id}"><extensionElements>{script}</extensionElements></scriptTask>'


def _service(node_id: str) -> str:
    """Write a service task, whose handler does what the variable `act` says."""
    task = '<zeebe:taskDefinition type="chaos.async"/>'
    return f'<serviceTask id="{node_id}"><extensionElements>{task}</extensionElements></serviceTask>'


class Made(NamedTuple):
    """What a node waits for: a timer, a task of a person or a job."""

    kind: str
    node_id: str


class Way(NamedTuple):
    """One way through a model: the nodes that tokens leave, each once; those at which one is terminated; what is made.

    `after` tells of nodes which others must have been left before they are entered. `counted` is how many scripts run.
    `takes` are the kinds of signals, each with the node that it is for, that have an effect.
    """

    name: str
    left: Sequence[str]
    after: Mapping[str, Sequence[str]]
    made: Sequence[Made]
    takes: Sequence[Made]
    counted: int
    terminated: Sequence[str] = ()


class Process(NamedTuple):
    """A model, and its ways. `task` is a task that clients complete, `message` the node to which they publish.

    `boundary` is an event at the border of the task: a timer, which ends the instance although nobody completes it.
    """

    process_id: str
    model: bytes
    ways: Sequence[Way]
    task: str | None = None
    message: str | None = None
    boundary: str | None = None


def _line(*nodes: str) -> Mapping[str, Sequence[str]]:
    """Let each node come after the one before it."""
    return {late: (early,) for early, late in pairwise(nodes)}


_RACE = Process(
    "chaos-race",
    model(
        START
        + '<userTask id="approve"/>'
        + boundary("late", "approve", timer("timeDuration", "=due"))
        + _counts("count")
        + _service("charge")
        + _counts("count-late")
        + END
        + '<endEvent id="expired"/>',
        connected="start>approve approve>count count>charge charge>end late>count-late count-late>expired",
        process_id="chaos-race",
    ),
    (
        Way(
            "approved",
            ("start", "approve", "count", "charge", "end"),
            _line("start", "approve", "count", "charge", "end"),
            (Made("task", "approve"), Made("timer", "late"), Made("job", "charge")),
            (Made("completed", "approve"), Made("completed", "charge")),
            1,
        ),
        Way(
            "too late",
            ("start", "late", "count-late", "expired"),
            _line("start", "approve", "late", "count-late", "expired"),
            (Made("task", "approve"), Made("timer", "late")),
            (Made("fired", "late"),),
            1,
            terminated=("approve",),
        ),
    ),
    task="approve",
    boundary="late",
)

_MESSAGE = Process(
    "chaos-message",
    model(
        START
        + '<intermediateCatchEvent id="paid"><messageEventDefinition messageRef="paid-message"/>'
        + "</intermediateCatchEvent>"
        + f'<intermediateCatchEvent id="rest">{timer("timeDuration", "=due")}</intermediateCatchEvent>'
        + _counts("first")
        + _counts("second")
        + _service("ship")
        + END,
        connected="start>paid paid>rest rest>first first>second second>ship ship>end",
        beside=_PAID,
        process_id="chaos-message",
    ),
    (
        Way(
            "paid",
            ("start", "paid", "rest", "first", "second", "ship", "end"),
            _line("start", "paid", "rest", "first", "second", "ship", "end"),
            (Made("timer", "rest"), Made("job", "ship")),
            (Made("happened", "paid"), Made("fired", "rest"), Made("completed", "ship")),
            2,
        ),
    ),
    message="paid",
)

_BOTH = Process(
    "chaos-both",
    model(
        START
        + '<parallelGateway id="fork"/><userTask id="sign"/>'
        + f'<intermediateCatchEvent id="rest">{timer("timeDuration", "=due")}</intermediateCatchEvent>'
        + _counts("first")
        + _counts("second")
        + '<parallelGateway id="join"/>'
        + _service("send")
        + END,
        connected="start>fork fork>sign fork>rest sign>first rest>second first>join second>join join>send send>end",
        process_id="chaos-both",
    ),
    (
        Way(
            "both",
            ("start", "fork", "sign", "rest", "first", "second", "join", "send", "end"),
            {
                **_line("start", "fork", "sign", "first", "join", "send", "end"),
                **_line("fork", "rest", "second"),
                "join": ("first",),
                "send": ("join", "second"),
            },
            (Made("task", "sign"), Made("timer", "rest"), Made("job", "send")),
            (Made("completed", "sign"), Made("fired", "rest"), Made("completed", "send")),
            2,
        ),
    ),
    task="sign",
)

PROCESSES: Mapping[str, Process] = {it.process_id: it for it in (_RACE, _MESSAGE, _BOTH)}
