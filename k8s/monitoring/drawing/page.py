"""Panels laid out as in Grafana, on one page."""

from collections.abc import Mapping

from k8s.monitoring.drawing.boards import Dashboard, Panel
from k8s.monitoring.drawing.charts import AXIS_W, CHARTS, FAINT, INK, Frame
from k8s.monitoring.drawing.scales import Axis
from k8s.monitoring.drawing.source import Source, Span
from k8s.monitoring.drawing.svg import Picture

COLUMN, ROW, GAP, MARGIN, HEAD = 50.0, 28.0, 8.0, 12.0, 56.0
TITLE_H = 24.0


def draw(board: Dashboard, source: Source, marks: Mapping[float, str]) -> str:
    """Draw a dashboard as SVG; marks are moments, in seconds since 1970, and what happened then."""
    rows = max(panel.place["y"] + panel.place["h"] for panel in board.panels)
    picture = Picture(24 * COLUMN + 2 * MARGIN, rows * ROW + HEAD + MARGIN)
    picture.rect(0, 0, picture.width, picture.height, fill="#f6f8fa")
    picture.text(MARGIN, 26, board.title, size=18, color=INK, bold=True)
    picture.text(MARGIN, 45, _legend(source.span, marks), size=11)
    for panel in board.panels:
        _draw_panel(picture, panel, source, marks)
    return str(picture)


def _legend(span: Span, marks: Mapping[float, str]) -> str:
    letters = [
        f"({chr(ord('a') + n)}) {what} at {_clock(at - span.start)}"
        for n, (at, what) in enumerate(sorted(marks.items()))
    ]
    return "; ".join([f"{_clock(span.end - span.start)} minutes in all", *letters])


def _draw_panel(picture: Picture, panel: Panel, source: Source, marks: Mapping[float, str]) -> None:
    place = panel.place
    x, y = MARGIN + place["x"] * COLUMN, HEAD + place["y"] * ROW
    width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
    if panel.kind == "row":
        picture.text(x, y + 18, panel.title, size=13, color=INK, bold=True)
        return
    picture.rect(x, y, width, height, fill="#ffffff", line="#d8dee4")
    picture.text(x + 10, y + 17, panel.title, size=12, color=INK, bold=True)
    inside = Frame(x + 2, y + TITLE_H, width - 4, height - TITLE_H - 2)
    series = [one for query in panel.queries for one in source.series(query)]
    if not series:
        picture.text(x + width / 2, y + height / 2 + 6, "no data", anchor="middle")
        return
    CHARTS[panel.kind](picture, inside, panel, series, source.span)
    if panel.kind in ("timeseries", "heatmap"):
        _draw_marks(picture, inside, source.span, marks)


def _draw_marks(picture: Picture, inside: Frame, span: Span, marks: Mapping[float, str]) -> None:
    x = Axis(span.start, span.end, inside.x + AXIS_W, inside.right - 12)
    for number, at in enumerate(sorted(marks)):
        place = x.place(at)
        picture.line(place, inside.y + 2, place, inside.y + inside.height * 0.62, color=FAINT, dash="2 3")
        picture.text(place + 3, inside.y + 9, chr(ord("a") + number), size=9, color=FAINT)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
