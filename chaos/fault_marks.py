"""Arrange faults as marks below a picture, with a row for each kind of fault and with labels that don't overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chaos.history.faults import Fault, FaultKind
from charts.colors import GRID, INK
from charts.scales import Axis
from charts.svg import Picture, text_width

ROW_H, MARK_H, GAP = 15.0, 10.0, 5.0
TICK_W = 3.0  # the width of a momentary fault
LABEL = 9.0
# The limit of rows for one kind of fault. If a kind needs more rows, its faults become ticks in one row, without
# labels.
ROWS_MAX = 5
LABELS_MAX = 60  # The limit of labels; more labels would be unreadable.
LABEL_CHARS_MAX = 28

# The colours of Okabe and Ito, which readers with any kind of colour vision can distinguish. The rows separate the
# kinds even without colours.
COLORS: Mapping[FaultKind, str] = {
    "kill": "#d55e00", "freeze": "#56b4e9", "cut": "#cc79a7", "store": "#0072b2", "head": "#009e73",
    "load": "#e69f00", "lock": "#f0e442", "clock": "#000000", "poison": "#999999",
}  # fmt: skip


class Mark(NamedTuple):
    """The mark of one fault: its edges, its row among the rows of its kind, and its label, which may be empty."""

    fault: Fault
    left: float
    right: float
    row: int = 0
    label: str = ""
    label_at: float = 0.0


def place(faults: Sequence[Fault], x: Axis) -> dict[FaultKind, list[Mark]]:
    """Arrange all faults by kind, in the order of their start; omit kinds without a fault."""
    ordered = sorted(faults, key=lambda fault: fault.began_at)
    kinds = {kind: [fault for fault in ordered if fault.kind == kind] for kind in COLORS}
    lanes = {kind: _lane(those, x, rows=ROWS_MAX if len(faults) <= LABELS_MAX else 0) for kind, those in kinds.items()}
    return {kind: marks for kind, marks in lanes.items() if marks}


def height_of(lanes: Mapping[FaultKind, Sequence[Mark]]) -> float:
    """Return the height of all marks."""
    return sum(_rows(marks) * ROW_H + GAP for marks in lanes.values())


def draw_lanes(picture: Picture, lanes: Mapping[FaultKind, Sequence[Mark]], x: Axis, y: float) -> None:
    """Draw the rows below `y`; each fault is a rectangle with a dark edge."""
    for kind, marks in lanes.items():
        picture.line(22, y, x.end, y, color=GRID)
        count = f" ×{len(marks)}" if len(marks) > 1 else ""
        picture.rect(22, y + 4, 9, 9, fill=COLORS[kind])
        picture.text(35, y + 12, f"{kind}{count}", size=10, color=INK)
        for mark in marks:
            top = y + 3 + mark.row * ROW_H
            picture.rect(mark.left, top, mark.right - mark.left, MARK_H, fill=COLORS[kind], line=INK)
            if mark.label:
                picture.text(mark.label_at, top + 8.5, mark.label, size=LABEL, color=INK)
        y += _rows(marks) * ROW_H + GAP


def _lane(faults: Sequence[Fault], x: Axis, *, rows: int) -> list[Mark]:
    marks: list[Mark] = []
    ends: list[float] = []  # the right edge of each row so far
    for fault in faults:
        left = x.place(fault.began_at)
        right = max(x.place(fault.ended_at), left + TICK_W)
        label = fault.name if len(fault.name) <= LABEL_CHARS_MAX else f"{fault.name[: LABEL_CHARS_MAX - 1]}…"
        width = text_width(label, size=LABEL)
        label_at = right + 3 if right + 3 + width <= x.end else left - 3 - width
        row = next((row for row, end in enumerate(ends) if end <= min(left, label_at)), len(ends))
        ends[row : row + 1] = [max(right, label_at + width) + 6]
        marks.append(Mark(fault, left, right, row, label, label_at))
    return marks if len(ends) <= rows else [Mark(mark.fault, mark.left, mark.right) for mark in marks]


def _rows(marks: Sequence[Mark]) -> int:
    return max(mark.row for mark in marks) + 1
