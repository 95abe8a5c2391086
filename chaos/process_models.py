"""Define the process models of a chaos run, and the possible paths through each model.

The paths are written by hand beside each model, without code of the engine.
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
    """Return a script that increments `n`: a wrong value of `n` reveals a script that did not run or ran twice."""
    script = '<zeebe:script expression="=n + 1" resultVariable="n"/>'
    return f'<scriptTask id="{node_id}"><extensionElements>{script}</extensionElements></scriptTask>'


def _service(node_id: str) -> str:
    """Return a service task; its handler performs the action in the variable `act`."""
    task = '<zeebe:taskDefinition type="chaos.async"/>'
    return f'<serviceTask id="{node_id}"><extensionElements>{task}</extensionElements></serviceTask>'


class NodeItem(NamedTuple):
    """A timer, user task, job or signal of a node."""

    kind: str
    node_id: str


class ModelPath(NamedTuple):
    """One path through a model: the nodes that tokens leave, each once, and the items that these nodes create.

    `after` maps a node to the nodes that tokens must have left before a token enters the node. `takes` are the signals
    with an effect, `counted` is the number of scripts that run, and `terminated` are the nodes at which a token is
    terminated.
    """

    name: str
    left: Sequence[str]
    after: Mapping[str, Sequence[str]]
    created: Sequence[NodeItem]
    takes: Sequence[NodeItem]
    counted: int
    terminated: Sequence[str] = ()


class Process(NamedTuple):
    """A model with its paths, the task that clients complete, and the node that waits for a message of clients.

    `boundary` is a timer at the boundary of the task. The timer ends the instance even if no client completes the task.
    """

    process_id: str
    model: bytes
    paths: Sequence[ModelPath]
    task: str | None = None
    message: str | None = None
    boundary: str | None = None


def _line(*nodes: str) -> Mapping[str, Sequence[str]]:
    """Add the order of the given nodes to a path."""
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
        ModelPath(
            "approved",
            ("start", "approve", "count", "charge", "end"),
            _line("start", "approve", "count", "charge", "end"),
            (NodeItem("task", "approve"), NodeItem("timer", "late"), NodeItem("job", "charge")),
            (NodeItem("completed", "approve"), NodeItem("completed", "charge")),
            1,
        ),
        ModelPath(
            "too late",
            ("start", "late", "count-late", "expired"),
            _line("start", "approve", "late", "count-late", "expired"),
            (NodeItem("task", "approve"), NodeItem("timer", "late")),
            (NodeItem("fired", "late"),),
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
        ModelPath(
            "paid",
            ("start", "paid", "rest", "first", "second", "ship", "end"),
            _line("start", "paid", "rest", "first", "second", "ship", "end"),
            (NodeItem("timer", "rest"), NodeItem("job", "ship")),
            (NodeItem("happened", "paid"), NodeItem("fired", "rest"), NodeItem("completed", "ship")),
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
        ModelPath(
            "both",
            ("start", "fork", "sign", "rest", "first", "second", "join", "send", "end"),
            {
                **_line("start", "fork", "sign", "first", "join", "send", "end"),
                **_line("fork", "rest", "second"),
                "join": ("first",),
                "send": ("join", "second"),
            },
            (NodeItem("task", "sign"), NodeItem("timer", "rest"), NodeItem("job", "send")),
            (NodeItem("completed", "sign"), NodeItem("fired", "rest"), NodeItem("completed", "send")),
            2,
        ),
    ),
    task="sign",
)

PROCESSES: Mapping[str, Process] = {it.process_id: it for it in (_RACE, _MESSAGE, _BOTH)}
