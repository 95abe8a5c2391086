"""Each function draws one kind of panel into a frame, and returns its plot if that has an axis for time."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from charts.colors import BLUES, GRID, NAMED, PALETTE
from charts.legend import Entry, Legend
from charts.plot import Frame, Plot
from charts.points import split_at_gaps, stack
from charts.scales import Axis, axis_for
from charts.svg import Picture
from charts.units import format_value
from k8s.monitoring.dashboards.spec import BarChart, Heatmap, Panel, Stat, TimeSeries
from k8s.monitoring.drawing.source import Series, Span

AXIS_W, AXIS_H, SHADES_H = 62.0, 18.0, 16.0
NARROW = 220.0  # a plot that is less wide has fewer times below
DASH = "6 4"
OBJECTIVE_S = 0.1

Draw = Callable[[Picture, Frame, Any, Sequence[Series], Span], Plot | None]


def draw_stat(picture: Picture, frame: Frame, panel: Stat, series: Sequence[Series], span: Span) -> None:
    """Draw the last value of each series large; below it, its course over time if there is only one series."""
    width = frame.width / max(len(series), 1)
    for number, one in enumerate(series):
        middle = frame.x + width * (number + 0.5)
        color = NAMED[panel.color_of(one.last)]
        picture.text(middle, frame.y + 34, _shown(panel, one), size=26, color=color, anchor="middle", bold=True)
        if len(series) > 1:
            picture.text(middle, frame.y + 54, one.name, anchor="middle")
    if len(series) == 1 and panel.sparkline:
        low = replace(frame, y=frame.y + 48, height=frame.height - 50)
        y = axis_for([value for _, value in series[0].points], low.bottom, low.y, from_zero=True)
        plot = Plot(picture, low, low.x_axis(span.start, span.end), y)
        for run in split_at_gaps(series[0].points, span.step):
            plot.area(run, color=PALETTE[0], opacity=0.15)
            plot.line(run, color=PALETTE[0])


def draw_time_series(picture: Picture, frame: Frame, panel: TimeSeries, series: Sequence[Series], span: Span) -> Plot:
    """Draw series over time: as lines, as areas on top of each other, or as bars."""
    queries = {query.legend: query for query in panel.queries}
    styles = [queries.get(one.name) for one in series]
    colors = [
        NAMED[style.color] if style and style.color else PALETTE[number % len(PALETTE)]
        for number, style in enumerate(styles)
    ]
    inside = _draw_legend(picture, frame, [Entry(one.name, color) for one, color in zip(series, colors, strict=True)])
    points = [one.points for one in series]
    layers = [(it, ()) for it in points] if panel.style == "lines" else list(stack(points))
    values = [value for top, _ in layers for _, value in top]
    y = axis_for(values, inside.bottom, inside.y, log=panel.log, from_zero=panel.from_zero)
    plot = Plot(picture, inside, inside.x_axis(span.start, span.end), y)
    _draw_values(plot, panel)
    _draw_times(plot)
    for (top, floor), color, style in reversed(list(zip(layers, colors, styles, strict=True))):
        if panel.style == "bars":
            plot.bars(top, width=max(_step_width(plot, span) * 0.8, 1.5), color=color)
            continue
        floors = split_at_gaps(floor, span.step)
        for run in split_at_gaps(top, span.step):
            if panel.style == "stacked":
                plot.area(run, color=color, opacity=0.45, floor=next(floors))
            plot.line(run, color=color, dash=DASH if style and style.dashed else "")
    return plot


def draw_heatmap(picture: Picture, frame: Frame, panel: Heatmap, series: Sequence[Series], span: Span) -> Plot:
    """Draw a histogram over time: a row for each bucket, the darker the more."""
    rows = _rows(series)
    inside = _draw_legend(picture, replace(frame, height=frame.height - SHADES_H - 2), [])
    plot = Plot(
        picture, inside, inside.x_axis(span.start, span.end), Axis(0, max(len(rows), 1), inside.bottom, inside.y)
    )
    most = max((count for _, counts in rows for count in counts.values()), default=1.0)
    _draw_times(plot)
    width = _step_width(plot, span)
    for number, (edge, counts) in enumerate(rows):
        top, bottom = plot.y.place(number + 1), plot.y.place(number)
        picture.line(inside.x, top, inside.right, top, color=GRID)
        label = edge if edge == "+Inf" else format_value(float(edge), panel.edge_unit)
        picture.text(inside.x - 6, top + 4, label, size=10, anchor="end")
        for at, count in counts.items():
            if count > 0:
                shade = BLUES[min(int((count / most) ** 0.4 * len(BLUES)), len(BLUES) - 1)]
                left = min(max(plot.x.place(at) - width, inside.x), inside.right - width)
                picture.rect(left, top + 0.5, width + 0.3, bottom - top - 1, fill=shade)
    _draw_shades(picture, inside, most)
    return plot


def draw_bar_chart(picture: Picture, frame: Frame, panel: BarChart, series: Sequence[Series], _: Span) -> None:
    """Draw the first name's series as bars, side by side, and the others' as a line across."""
    names = list(dict.fromkeys(one.name for one in series))
    colors = {name: PALETTE[number] for number, name in enumerate(names)}
    inside = _draw_legend(picture, frame, [Entry(name, color) for name, color in colors.items()])
    fields = sorted({one.labels[panel.label] for one in series})
    y = axis_for([one.last for one in series], inside.bottom, inside.y, from_zero=True)
    plot = Plot(picture, inside, inside.x_axis(0, max(len(fields), 1)), y)
    _draw_values(plot, panel)
    width = plot.x.place(1) - inside.x
    for number, field in enumerate(fields):
        left = plot.x.place(number)
        picture.text(left + width / 2, inside.bottom + 14, field, size=10, anchor="middle")
        for one in (one for one in series if one.labels[panel.label] == field):
            if one.name == names[0]:
                plot.bars([(number + 0.85, one.last)], width=width * 0.7, color=colors[one.name])
            else:
                top = y.place(one.last)
                picture.line(left, top, left + width, top, color=colors[one.name], dash=DASH)


PANELS: dict[type[Panel], Draw] = {
    Stat: draw_stat,
    TimeSeries: draw_time_series,
    Heatmap: draw_heatmap,
    BarChart: draw_bar_chart,
}


def _shown(panel: Stat, one: Series) -> str:
    if panel.shows == "name":
        return one.name
    if one.last in panel.names:
        return panel.names[int(one.last)][0]
    return format_value(one.last, panel.unit, digits=4 if one.last < 1 else 3)


def _draw_legend(picture: Picture, frame: Frame, entries: Sequence[Entry]) -> Frame:
    """Draw the legend at the bottom, and give the room that is left for the plot."""
    legend = Legend(entries, frame.width - 8)
    legend.draw(picture, frame.x + 8, frame.bottom - legend.height)
    height = frame.height - legend.height - AXIS_H - 6
    return Frame(frame.x + AXIS_W, frame.y + 4, frame.width - AXIS_W - 12, height)


def _draw_values(plot: Plot, panel: Panel) -> None:
    ticks = plot.y.ticks(panel.unit, count=max(2, int(plot.frame.height / 32)))
    plot.draw_y_grid(ticks, lambda value: format_value(value, panel.unit))


def _draw_times(plot: Plot) -> None:
    plot.draw_time_axis(7 if plot.frame.width > NARROW else 4, lambda after_s: f"{after_s // 60}:{after_s % 60:02}")


def _step_width(plot: Plot, span: Span) -> float:
    return plot.x.place(span.start + span.step) - plot.frame.x


def _draw_shades(picture: Picture, inside: Frame, most: float) -> None:
    """Say how many timers a shade stands for."""
    y = inside.bottom + 20
    picture.text(inside.right - 150, y + 8, "1", size=9, anchor="end")
    for number, shade in enumerate(BLUES):
        picture.rect(inside.right - 146 + number * 14, y, 14, 9, fill=shade)
    picture.text(inside.right - 44, y + 8, f"{format_value(most, 'short', digits=2)} timers", size=9)


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
    filled += [bisect_left(edges, OBJECTIVE_S)] if rows else []
    return rows[max(min(filled, default=0) - 1, 0) : max(filled, default=0) + 2]
