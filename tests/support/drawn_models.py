"""A model of a process with its drawing (BPMN DI)."""

from __future__ import annotations

from tests.support.bpmn import boundary, model

TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"


def drawn_model(name: str = "Approve the order", *, x: str = "160", width: int = 100) -> bytes:
    """Write a process with a user task, its timer and a gateway, and draw them; `x` and `width` belong to the task."""
    elements = (
        f'<startEvent id="s"/><userTask id="u" name="{name}"/><exclusiveGateway id="g"/><endEvent id="e"/>'
        f'<endEvent id="late"/>{boundary("too-late", "u", TIMER, interrupts=False)}'
    )
    shapes = "".join(
        _shape(*it)
        for it in (
            ("s", "100", 82, 36, 36), ("u", x, 60, width, 80), ("too-late", "200", 122, 36, 36),
            ("g", "310", 75, 50, 50), ("e", "412", 82, 36, 36), ("late", "300", 202, 36, 36),
            ("unknown", "0", 0, 36, 36),
        )
    )  # fmt: skip
    drawing = (
        '<d:BPMNDiagram xmlns:d="http://www.omg.org/spec/BPMN/20100524/DI"'
        ' xmlns:c="http://www.omg.org/spec/DD/20100524/DC" xmlns:i="http://www.omg.org/spec/DD/20100524/DI">'
        f'<d:BPMNPlane bpmnElement="p">{shapes}'
        '<d:BPMNEdge bpmnElement="s-u"><i:waypoint x="136" y="100"/><i:waypoint x="160" y="100"/></d:BPMNEdge>'
        "</d:BPMNPlane></d:BPMNDiagram>"
    )
    return model(elements, connected="s>u u>g g>e too-late>late", beside=drawing)


def _shape(element_id: str, x: str, y: int, width: int, height: int) -> str:
    bounds = f'<c:Bounds x="{x}" y="{y}" width="{width}" height="{height}"/>'
    return f'<d:BPMNShape bpmnElement="{element_id}">{bounds}</d:BPMNShape>'
