"""Panels laid out as in Grafana, on one page."""

from collections.abc import Mapping

from charts.colors import INK, WHITE
from charts.plot import Frame
from charts.svg import Picture
from k8s.monitoring.dashboards.spec import COLUMNS, Dashboard, Panel, Place
from k8s.monitoring.drawing.panels import PANELS
from k8s.monitoring.drawing.source import Source, Span

COLUMN_W, ROW_H, GAP, MARGIN, HEAD_H = 50.0, 28.0, 8.0, 12.0, 56.0
TITLE_H = 24.0
BACKGROUND, BORDER = "#f6f8fa", "#d8dee4"


def draw(dashboard: Dashboard, source: Source, marks: Mapping[float, str]) -> str:
    """Draw a dashboard as SVG; marks are moments, in seconds since 1970, and what happened then."""
    places = list(dashboard.places())
    rows = max(place.y + place.height for _, place in places)
    picture = Picture(COLUMNS * COLUMN_W + 2 * MARGIN, rows * ROW_H + HEAD_H + MARGIN, background=BACKGROUND)
    picture.heading(MARGIN, dashboard.title, _legend(source.span, marks))
    for panel, place in places:
        frame = _frame(place)
        if isinstance(panel, str):
            picture.text(frame.x, frame.y + 18, panel, size=13, color=INK, bold=True)
        else:
            _draw_panel(picture, frame, panel, source, marks)
    return str(picture)


def _frame(place: Place) -> Frame:
    x, y = MARGIN + place.x * COLUMN_W, HEAD_H + place.y * ROW_H
    return Frame(x, y, place.width * COLUMN_W - GAP, place.height * ROW_H - GAP)


def _legend(span: Span, marks: Mapping[float, str]) -> str:
    letters = [
        f"({_letter(number)}) {what} at {_clock(at - span.start)}"
        for number, (at, what) in enumerate(sorted(marks.items()))
    ]
    return "; ".join([f"{_clock(span.end - span.start)} minutes in all", *letters])


def _draw_panel(picture: Picture, frame: Frame, panel: Panel, source: Source, marks: Mapping[float, str]) -> None:
    picture.rect(frame.x, frame.y, frame.width, frame.height, fill=WHITE, line=BORDER)
    picture.text(frame.x + 10, frame.y + 17, panel.title, size=12, color=INK, bold=True)
    inside = Frame(frame.x + 2, frame.y + TITLE_H, frame.width - 4, frame.height - TITLE_H - 2)
    series = [one for query in panel.queries for one in source.series(query, instant=panel.instant)]
    if not series:
        picture.text(frame.x + frame.width / 2, frame.y + frame.height / 2 + 6, "no data", anchor="middle")
        return
    plot = PANELS[type(panel)](picture, inside, panel, series, source.span)
    if plot:
        for number, at in enumerate(sorted(marks)):
            plot.mark(at, _letter(number))


def _letter(number: int) -> str:
    return chr(ord("a") + number)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
