"""Read the coordinates of a process's elements and flows from the diagram (BPMN DI) in its model.

source:  BPMN 2.0.2 (OMG formal/2013-12-09), chapter 12
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.document import read_document
from shardclock_server.bpmn.model.names import local_name, text_of

SHAPES_MAX = 300  # A page with more shapes would take more than a second to load.
NAME_CHARS_MAX = 100
PLACE_MAX = 1e6
TRIGGER = "EventDefinition"
DRAWN = frozenset({"BPMNShape", "BPMNEdge", "BPMNPlane", "BPMNDiagram", "BPMNLabel"})


@dataclass(frozen=True, slots=True)
class Shape:
    """An element's shape.

    `kind` is the element's XML name; `trigger` is the kind of an event's trigger, such as
    timer, or ''.
    """

    element_id: str
    kind: str
    trigger: str
    name: str
    x: float
    y: float
    width: float
    height: float
    is_interrupting: bool
    is_expanded: bool


@dataclass(frozen=True, slots=True)
class FlowLine:
    """The line of a sequence flow, as a list of corners, and the flow's name."""

    element_id: str
    kind: str
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A model's shapes, in the order of the file, and its flows. The box encloses all shapes and flows."""

    shapes: Sequence[Shape]
    flows: Sequence[FlowLine]
    left: float
    top: float
    width: float
    height: float


def read_drawing(model: bytes) -> Drawing | None:
    """Read the first drawing of a model. A call may take a second of processor time.

    shape:   None if the model has no drawing, if the drawing has more than 300 shapes, or if a shape lacks a position
             or an area
    errors:  InvalidModel  the model is not XML
    """
    root = read_document(model)
    plane = next((it for it in root.iter() if local_name(it) == "BPMNPlane"), None)
    if plane is None:
        return None
    elements = {it.get("id", ""): it for it in root.iter() if local_name(it) not in DRAWN}
    drawn = [it for it in plane if it.get("bpmnElement", "") in elements]
    try:
        shapes = [_shape(it, elements) for it in drawn if local_name(it) == "BPMNShape"]
        flows = [_flow(it, elements) for it in drawn if local_name(it) == "BPMNEdge"]
    except ValueError:
        return None
    if not 0 < len(shapes) <= SHAPES_MAX or len(flows) > 2 * SHAPES_MAX:
        return None
    return _boxed(shapes, flows)


def _shape(drawn: Element, elements: Mapping[str, Element]) -> Shape:
    element_id = drawn.get("bpmnElement", "")
    element = elements[element_id]
    bounds = next((it for it in drawn if local_name(it) == "Bounds"), None)
    if bounds is None:
        raise ValueError("a shape without a position")
    x, y, width, height = (_number(bounds, name) for name in ("x", "y", "width", "height"))
    if min(width, height) <= 0:
        raise ValueError("a shape without an area")
    return Shape(
        element_id,
        local_name(element),
        next(_triggers(element), ""),
        _name(element),
        x,
        y,
        width,
        height,
        is_interrupting=element.get("cancelActivity") != "false" and element.get("isInterrupting") != "false",
        is_expanded=drawn.get("isExpanded") == "true",
    )


def _flow(drawn: Element, elements: Mapping[str, Element]) -> FlowLine:
    element_id = drawn.get("bpmnElement", "")
    points = [(_number(it, "x"), _number(it, "y")) for it in drawn if local_name(it) == "waypoint"]
    return FlowLine(element_id, local_name(elements[element_id]), _name(elements[element_id]), points)


def _triggers(element: Element) -> Iterator[str]:
    for child in element:
        if local_name(child).endswith(TRIGGER):
            yield local_name(child).removesuffix(TRIGGER)


def _name(element: Element) -> str:
    text = element.get("name") or next((text_of(it) for it in element if local_name(it) == "text"), "")
    return " ".join(text.split())[:NAME_CHARS_MAX]


def _number(element: Element, name: str) -> float:
    """Read a coordinate.

    errors:  ValueError  the text is not a number, or the number is outside the allowed range of coordinates
    """
    number = float(element.get(name, "nan"))
    if not math.isfinite(number) or abs(number) > PLACE_MAX:
        raise ValueError("a position outside the allowed range")
    return round(number, 1)


def _boxed(shapes: Sequence[Shape], flows: Sequence[FlowLine]) -> Drawing:
    corners = [(it.x, it.y) for it in shapes] + [(it.x + it.width, it.y + it.height) for it in shapes]
    corners += [point for flow in flows for point in flow.points]
    left, top = (min(it[axis] for it in corners) for axis in (0, 1))
    right, bottom = (max(it[axis] for it in corners) for axis in (0, 1))
    return Drawing(shapes, flows, left, top, right - left, bottom - top)
