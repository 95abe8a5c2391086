"""One kind of panel each, drawn into a frame."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from k8s.monitoring.drawing.boards import Panel
from k8s.monitoring.drawing.scales import Axis, axis_for, words
from k8s.monitoring.drawing.source import Points, Series, Span
from k8s.monitoring.drawing.svg import Picture, width_of

PALETTE = ("#1f77b4", "#e8870c", "#2ca02c", "#9467bd", "#17a2b8", "#d6459b", "#8c6d31", "#5b6b7b")
COLORS = {
    "red": "#d1242f", "orange": "#e8870c", "yellow": "#d4a72c", "green": "#1a7f37", "blue": "#1f77b4",
    "purple": "#8250df", "text": "#24292f",
}  # fmt: skip
BLUES = ("#eef4fb", "#cfe1f4", "#a3c8e8", "#6ca7d8", "#3d82c0", "#1c5c9e", "#0b3a73")
INK, GRID, FAINT = "#24292f", "#e7eaee", "#57606a"
LEGEND_H, AXIS_H, AXIS_W = 16.0, 18.0, 62.0


@dataclass(frozen=True)
class Frame:
    """A part of the picture."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Find its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Find its lower edge."""
        return self.y + self.height


def draw_stat(picture: Picture, frame: Frame, panel: Panel, series: Sequence[Series], span: Span) -> None:
    """Draw the last value of each series large, and a single one's course beneath."""
    width = frame.width / max(len(series), 1)
    for number, one in enumerate(series):
        middle = frame.x + width * (number + 0.5)
        shown = one.name if panel.json["options"]["textMode"] == "name" else panel.words(one.last)
        text = shown or words(one.last, panel.unit, digits=4 if one.last < 1 else 3)
        color = next((c for value, c in reversed(panel.steps) if one.last >= value), "text")
        picture.text(middle, frame.y + 34, text, size=26, color=COLORS[color], anchor="middle", bold=True)
        if len(series) > 1:
            picture.text(middle, frame.y + 54, one.name, anchor="middle")
    if len(series) == 1 and panel.json["options"]["graphMode"] == "area":
        x = Axis(span.start, span.end, frame.x, frame.right)
        low = replace(frame, y=frame.y + 48, height=frame.height - 50)
        y = axis_for([value for _, value in series[0].points], low.bottom, low.y, log=False, from_zero=True)
        for run in _runs(series[0].points, span):
            places = [(x.place(at), y.place(value)) for at, value in run]
            corners = [(places[-1][0], low.bottom), (places[0][0], low.bottom)]
            picture.area([*places, *corners], fill=PALETTE[0], opacity=0.15)
            picture.path(places, color=PALETTE[0])


def draw_lines(picture: Picture, frame: Frame, panel: Panel, series: Sequence[Series], span: Span) -> None:
    """Draw series over time: as lines, as areas on top of each other, or as bars."""
    colors = [_color(panel, one.name, number) for number, one in enumerate(series)]
    plot = _plot(picture, frame, list(zip([one.name for one in series], colors, strict=True)))
    layers = list(_layers(series)) if panel.is_stacked else [(one.points, {}) for one in series]
    values = [value for points, _ in layers for _, value in points]
    y = axis_for(values, plot.bottom, plot.y, log=panel.is_log, from_zero=panel.from_zero)
    x = Axis(span.start, span.end, plot.x, plot.right)
    _draw_axes(picture, plot, x, y, panel.unit)
    for (points, below), color, one in reversed(list(zip(layers, colors, series, strict=True))):
        dash = "6 4" if panel.override(one.name, "custom.lineStyle") else ""
        for run in _runs(points, span):
            places = [(x.place(at), y.place(value)) for at, value in run]
            if panel.is_bars:
                _draw_bars(picture, places, plot.bottom, x.place(span.start + span.step) - plot.x, color)
                continue
            if panel.is_stacked:
                floor = [(x.place(at), y.place(below.get(at, 0.0))) for at, _ in reversed(run)]
                picture.area([*places, *floor], fill=color, opacity=0.45)
            picture.path(places, color=color, dash=dash)


def draw_heatmap(picture: Picture, frame: Frame, panel: Panel, series: Sequence[Series], span: Span) -> None:
    """Draw a histogram over time: a row for each bucket, the darker the more."""
    rows = _rows(series)
    plot = replace(_plot(picture, frame, []), height=frame.height - AXIS_H - LEGEND_H - 8)
    height = plot.height / max(len(rows), 1)
    most = max((count for _, counts in rows for count in counts.values()), default=1.0)
    x = Axis(span.start, span.end, plot.x, plot.right)
    _draw_times(picture, plot, x)
    width = x.place(span.start + span.step) - plot.x
    unit = panel.json["options"]["yAxis"]["unit"]
    for number, (edge, counts) in enumerate(rows):
        top = plot.bottom - (number + 1) * height
        picture.line(plot.x, top, plot.right, top, color=GRID)
        picture.text(plot.x - 6, top + 4, edge if edge == "+Inf" else words(float(edge), unit), size=10, anchor="end")
        for at, count in counts.items():
            if count > 0:
                shade = BLUES[min(int((count / most) ** 0.4 * len(BLUES)), len(BLUES) - 1)]
                left = min(max(x.place(at) - width, plot.x), plot.right - width)
                picture.rect(left, top + 0.5, width + 0.3, height - 1, fill=shade)
    _draw_shades(picture, plot, most)


def draw_barchart(picture: Picture, frame: Frame, panel: Panel, series: Sequence[Series], _: Span) -> None:
    """Draw the first name's series as bars, side by side, and the others' as a line across."""
    names = list(dict.fromkeys(one.name for one in series))
    colors = {name: PALETTE[number] for number, name in enumerate(names)}
    plot = _plot(picture, frame, list(colors.items()))
    label = panel.json["options"]["xField"]
    fields = sorted({one.labels[label] for one in series})
    y = axis_for([one.last for one in series], plot.bottom, plot.y, log=False, from_zero=True)
    _draw_values(picture, plot, y, panel.unit)
    width = plot.width / max(len(fields), 1)
    for number, field in enumerate(fields):
        left = plot.x + number * width
        picture.text(left + width / 2, plot.bottom + 14, field, size=10, anchor="middle")
        for one in (one for one in series if one.labels[label] == field):
            top = y.place(one.last)
            if one.name == names[0]:
                picture.rect(left + width * 0.15, top, width * 0.7, plot.bottom - top, fill=colors[one.name])
            else:
                picture.line(left, top, left + width, top, color=colors[one.name], dash="6 4")


CHARTS: dict[str, Callable[[Picture, Frame, Panel, Sequence[Series], Span], None]] = {
    "stat": draw_stat,
    "timeseries": draw_lines,
    "heatmap": draw_heatmap,
    "barchart": draw_barchart,
}


def _color(panel: Panel, name: str, number: int) -> str:
    fixed = panel.override(name, "color")
    return COLORS[fixed["fixedColor"]] if fixed else PALETTE[number % len(PALETTE)]


def _plot(picture: Picture, frame: Frame, legend: Sequence[tuple[str, str]]) -> Frame:
    """Write the legend below, on as many lines as it needs, and give the room that is left for the plot."""
    places, x, line = [], frame.x + 8, 0
    for name, color in legend:
        width = width_of(name, size=10) + 26
        if x + width > frame.right and x > frame.x + 8:
            x, line = frame.x + 8, line + 1
        places.append((x, line, name, color))
        x += width
    lines = line + 1 if legend else 0
    for x, line, name, color in places:
        y = frame.bottom - (lines - line) * LEGEND_H + 11
        picture.rect(x, y - 8, 10, 8, fill=color)
        picture.text(x + 14, y, name, size=10)
    height = frame.height - lines * LEGEND_H - AXIS_H - 6
    return Frame(frame.x + AXIS_W, frame.y + 4, frame.width - AXIS_W - 12, height)


def _draw_axes(picture: Picture, plot: Frame, x: Axis, y: Axis, unit: str) -> None:
    _draw_values(picture, plot, y, unit)
    _draw_times(picture, plot, x)


def _draw_values(picture: Picture, plot: Frame, y: Axis, unit: str) -> None:
    for tick in y.ticks(unit, count=max(2, int(plot.height / 32))):
        place = y.place(tick)
        picture.line(plot.x, place, plot.right, place, color=GRID)
        picture.text(plot.x - 6, place + 4, words(tick, unit), size=10, anchor="end")


def _draw_times(picture: Picture, plot: Frame, x: Axis) -> None:
    picture.line(plot.x, plot.bottom, plot.right, plot.bottom, color=FAINT)
    length = x.high - x.low
    step = next((s for s in (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200) if length / s <= 7), 14_400)
    step *= 1 if plot.width > 220 else 2
    for number in range(int(length / step) + 1):
        place = x.place(x.low + number * step)
        picture.line(place, plot.bottom, place, plot.bottom + 3, color=FAINT)
        picture.text(
            place, plot.bottom + 14, f"{number * step // 60}:{number * step % 60:02}", size=10, anchor="middle"
        )


def _draw_bars(picture: Picture, places: Points, bottom: float, step: float, color: str) -> None:
    for x, y in places:
        picture.rect(x - step * 0.8, y, max(step * 0.8, 1.5), bottom - y, fill=color)


def _draw_shades(picture: Picture, plot: Frame, most: float) -> None:
    """Say how many a shade stands for."""
    y = plot.bottom + 20
    picture.text(plot.right - 150, y + 8, "1", size=9, anchor="end")
    for number, shade in enumerate(BLUES):
        picture.rect(plot.right - 146 + number * 14, y, 14, 9, fill=shade)
    picture.text(plot.right - 44, y + 8, f"{words(most, 'short', digits=2)} timers", size=9)


def _runs(points: Points, span: Span) -> Iterator[Points]:
    """Cut a line where it has a gap."""
    run: Points = []
    for point in points:
        if run and point[0] - run[-1][0] > span.step * 1.5:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _layers(series: Sequence[Series]) -> Iterator[tuple[Points, dict[float, float]]]:
    """Lay each series on top of those before it; with it comes what lies below."""
    below: dict[float, float] = {}
    for one in series:
        top = dict(below) | {at: below.get(at, 0.0) + value for at, value in one.points}
        yield [(at, top[at]) for at, _ in one.points], below
        below = top


def _rows(series: Sequence[Series]) -> list[tuple[str, dict[float, float]]]:
    """Turn cumulated buckets into counts of their own, without the empty ones at either end."""
    ordered = sorted(series, key=lambda one: float(one.labels["le"]))
    rows: list[tuple[str, dict[float, float]]] = []
    before: dict[float, float] = {}
    for one in ordered:
        counts = dict(one.points)
        rows.append((one.labels["le"], {at: count - before.get(at, 0.0) for at, count in counts.items()}))
        before = counts
    filled = [number for number, (_, counts) in enumerate(rows) if any(count > 0.01 for count in counts.values())]
    # The objective's row is shown in any case.
    edges = [float(edge) for edge, _ in rows]
    filled += [bisect_left(edges, 0.1)] if rows else []
    return rows[max(min(filled, default=0) - 1, 0) : max(filled, default=0) + 2]
