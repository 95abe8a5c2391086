"""Lay out the drawing of a process as SVG, with the tokens, incidents and due dates of an instance."""

import textwrap
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.bpmn.drawing import Drawing, FlowLine, Shape

MARGIN_PX = 24
LINES_MAX = 4
CHARACTER_PX = 6.5
LINE_PX = 13
DRAWINGS_MAX = 64
# The SVG path of each marker: its centre is the point 0, 0, and it is at most 18 pixels wide.
MARKERS = {
    "timer": "M0-8a8 8 0 1 1 0 16a8 8 0 1 1 0-16M0-5V0L4 2",
    "message": "M-8-5H8V6H-8zL0 1L8-5",
    "signal": "M0-8L8 6H-8z",
    "error": "M-8 6L-3-5L2 2L8-7L3 6L-2-1z",
    "escalation": "M0-8L7 7L0 1L-7 7z",
    "terminate": "M0-7a7 7 0 1 1 0 14a7 7 0 1 1 0-14",
    "conditional": "M-6-8H6V8H-6zM-3-4H3M-3 0H3M-3 4H3",
    "link": "M-8-3H0V-7L8 0L0 7V3H-8z",
    "compensate": "M0-6L-8 0L0 6zM8-6L0 0L8 6z",
    "cancel": "M-6-6L6 6M6-6L-6 6",
    "exclusiveGateway": "M-6-6L6 6M6-6L-6 6",
    "parallelGateway": "M0-9V9M-9 0H9",
    "inclusiveGateway": "M0-8a8 8 0 1 1 0 16a8 8 0 1 1 0-16",
    "eventBasedGateway": "M0-8L8-2L5 7H-5L-8-2z",
    "complexGateway": "M0-9V9M-9 0H9M-6-6L6 6M6-6L-6 6",
}
CONTAINERS = frozenset({"participant", "lane", "group", "textAnnotation"})
SCOPES = frozenset({"subProcess", "transaction", "adHocSubProcess"})


@dataclass(frozen=True, slots=True)
class WaitingTimer:
    """A timer for which an instance waits at a node."""

    timer_key: int
    due_date: datetime


@dataclass(frozen=True, slots=True)
class Marks:
    """The tokens, incidents and timers of an instance, grouped by node."""

    tokens: Mapping[str, int]
    incidents: Collection[str]
    timers: Mapping[str, Sequence[WaitingTimer]]


NO_MARKS = Marks({}, frozenset(), {})


@dataclass(frozen=True, slots=True)
class Text:
    """One centred line of text."""

    x: float
    y: float
    words: str


@dataclass(frozen=True, slots=True)
class Node:
    """A shape with its CSS class, its marker, its lines of text, and the instance's tokens, incident and timers."""

    shape: Shape
    look: str
    middle: tuple[float, float]
    marker: str
    lines: Sequence[Text]
    tokens: int
    has_incident: bool
    timers: Sequence[WaitingTimer]

    @property
    def below(self) -> float:
        """The vertical position of due dates: below the shape and its name."""
        return max([self.shape.y + self.shape.height, *(line.y for line in self.lines)]) + LINE_PX


@dataclass(frozen=True, slots=True)
class Diagram:
    """The nodes and lines of a drawing, and its box with a margin for names below shapes."""

    nodes: Sequence[Node]
    lines: Sequence[tuple[str, str, Sequence[Text]]]
    box: str
    width: int
    height: int


class Drawings:
    """A cache of drawings by definition; no entry becomes stale, because a definition never changes."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Drawing | None] = OrderedDict()

    def __contains__(self, definition_key: int) -> bool:
        return definition_key in self._known

    def __getitem__(self, definition_key: int) -> Drawing | None:
        self._known.move_to_end(definition_key)
        return self._known[definition_key]

    def keep(self, definition_key: int, drawing: Drawing | None) -> None:
        """Store a drawing, and evict the least recently shown drawing if the cache is full."""
        self._known[definition_key] = drawing
        while len(self._known) > DRAWINGS_MAX:
            self._known.popitem(last=False)


def diagram_of(drawing: Drawing, marks: Marks = NO_MARKS) -> Diagram:
    """Lay out a drawing; a container comes first, so that the shapes inside are drawn over the container."""
    nodes = [_node(shape, marks) for shape in sorted(drawing.shapes, key=_is_inner)]
    left, top = drawing.left - MARGIN_PX, drawing.top - MARGIN_PX
    width, height = round(drawing.width + 2 * MARGIN_PX), round(drawing.height + 3 * MARGIN_PX)
    lines = [_line(flow) for flow in drawing.flows]
    return Diagram(nodes, lines, f"{left:g} {top:g} {width} {height}", width, height)


def counted_tokens(nodes: Iterable[str]) -> dict[str, int]:
    """Count the tokens at each node."""
    return dict(Counter(nodes))


def _is_inner(shape: Shape) -> int:
    if shape.kind in CONTAINERS:
        return 0
    if shape.kind == "boundaryEvent":
        return 3
    return 1 if shape.kind in SCOPES and shape.is_expanded else 2


def _node(shape: Shape, marks: Marks) -> Node:
    look = _look(shape)
    return Node(
        shape,
        look,
        (shape.x + shape.width / 2, shape.y + shape.height / 2),
        MARKERS.get(shape.trigger or shape.kind, ""),
        _name(shape, look),
        marks.tokens.get(shape.element_id, 0),
        shape.element_id in marks.incidents,
        marks.timers.get(shape.element_id, ()),
    )


def _look(shape: Shape) -> str:
    if shape.kind.endswith("Event"):
        return "event"
    if shape.kind.endswith("Gateway"):
        return "gateway"
    return "container" if shape.kind in CONTAINERS or shape.is_expanded else "activity"


def _name(shape: Shape, look: str) -> list[Text]:
    """Place the lines of a shape's name: inside an activity, at the top of a container, below an event or a gateway."""
    width = shape.width if look in ("activity", "container") else max(shape.width, 90)
    lines = textwrap.wrap(shape.name, max(8, int(width / CHARACTER_PX)), max_lines=LINES_MAX, placeholder="…")
    if look == "activity":
        top = shape.y + shape.height / 2 - (len(lines) - 1) * LINE_PX / 2 + 4
    elif look == "container":
        top = shape.y + LINE_PX + 2
    else:
        top = shape.y + shape.height + LINE_PX
    x = shape.x + shape.width / 2
    return [Text(x, top + number * LINE_PX, line) for number, line in enumerate(lines)]


def _line(flow: FlowLine) -> tuple[str, str, Sequence[Text]]:
    """Return the CSS class, the SVG path and the name of a flow."""
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in flow.points)
    look = "flow" if flow.kind == "sequenceFlow" else "faint-flow"
    if not flow.name or len(flow.points) < 2:
        return look, path, ()
    middle = len(flow.points) // 2
    (x1, y1), (x2, y2) = flow.points[middle - 1], flow.points[middle]
    return look, path, [Text((x1 + x2) / 2, (y1 + y2) / 2 - 4, flow.name)]
