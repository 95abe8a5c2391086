"""Draw the lateness of timers during a run, together with the faults."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from chaos.fault_marks import COLORS, Mark, draw_lanes, height_of, place
from chaos.fault_windows import Window, deadline_s, windows_of
from chaos.history import History
from chaos.history.faults import FaultKind
from chaos.takeover import quantile
from charts.legend import Entry, Legend
from charts.plot import Frame, Plot
from charts.points import Points, split_at_gaps
from charts.scales import Axis
from charts.svg import Picture

WIDTH, MARGIN, HEAD_H, PLOT_H, AXIS_H = 1200.0, 22.0, 66.0, 330.0, 42.0
NAMES_W = 106.0  # The width to the left of the plot, for the values of the axis and for the kinds of faults.
POINTS_MAX = 1_300  # The limit of points in a curve, about one point per pixel.
TIMES_MAX = 16  # Ticks below the plot.
FLOOR_S = 0.0001  # Smaller values are drawn at the lower end of the axis.

# Colours from light to dark. The curves can be distinguished without colours: max is above p99, and p99 is above p50.
CURVES: Mapping[str, tuple[float, str]] = {"max": (1.0, "#86b6e0"), "p99": (0.99, "#2a6fb0"), "p50": (0.5, "#06264d")}
BOUND, BOUND_DASH = "#b42318", "6 3"
SHADE, SHADE_OPACITY = "#8c959f", 0.14


def draw(history: History, lags: Sequence[tuple[float, float]], title: str) -> str:
    """Draw the lag over time as SVG; below the plot, each kind of fault has a row with a mark for each fault.

    shape:  `lags` are pairs of a firing time and a lateness; the plot shows each lateness at the timer's due date
    """
    frame = Frame(NAMES_W, HEAD_H, WIDTH - NAMES_W - MARGIN, PLOT_H)
    x = frame.x_axis(history.began_at, max(history.ended_at, history.began_at + 1))
    lanes = place(history.faults, x)
    step_s = _step(x.high - x.low)
    curves = _curves(history, lags, step_s)
    bound = list(_bound(history))
    picture = Picture(WIDTH, frame.bottom + AXIS_H + height_of(lanes) + MARGIN)
    picture.heading(MARGIN, title)
    _legend(step_s).draw(picture, MARGIN, 37)
    plot = Plot(picture, frame, x, _axis([*curves.values(), bound], frame))
    _draw_windows(plot, history, lanes)
    plot.draw_y_grid(plot.y.ticks("s"), _value)
    plot.draw_time_axis(TIMES_MAX, lambda after_s: f"{after_s:,}")
    picture.text(frame.x + frame.width / 2, frame.bottom + 30, "seconds of the run", size=10, anchor="middle")
    for name, points in curves.items():
        for run in split_at_gaps(points, step_s):
            plot.line(run, color=CURVES[name][1])
    plot.line(bound, color=BOUND, dash=BOUND_DASH)
    draw_lanes(picture, lanes, x, frame.bottom + AXIS_H)
    return str(picture)


def _step(length_s: float) -> float:
    """Choose the number of seconds that one point of a curve covers: 1, or more in a long run."""
    return next((s for s in (1, 2, 5, 10, 15, 30, 60) if length_s / s <= POINTS_MAX), 300)


def _curves(history: History, lags: Sequence[tuple[float, float]], step_s: float) -> dict[str, Points]:
    steps: defaultdict[int, list[float]] = defaultdict(list)
    for fired_at, lag_s in lags:
        steps[int((fired_at - lag_s - history.began_at) // step_s)].append(lag_s)
    points = [(history.began_at + (number + 0.5) * step_s, steps[number]) for number in sorted(steps)]
    return {name: [(at, quantile(late, q)) for at, late in points] for name, (q, _) in CURVES.items()}


def _bound(history: History) -> Iterator[tuple[float, float]]:
    """Yield the lateness that the checker allows at each second, and just before and after each sudden change."""
    normal_s, windows = history.bounds.normal_s, windows_of(history.faults, history.bounds)
    # The window begins before the fault, because a timer that is due shortly before the fault may still wait when the
    # fault begins.
    leaps = [window.began_s - normal_s + beside for window in windows for beside in (-0.001, 0.001)]
    paces = [history.began_at + number for number in range(int(history.ended_at - history.began_at) + 1)]
    for at in sorted([*paces, *(leap for leap in leaps if leap > history.began_at)]):
        yield at, deadline_s(windows, at, allowed_s=normal_s) - at


def _axis(lines: Sequence[Points], frame: Frame) -> Axis:
    values = [max(lag_s, FLOOR_S) for line in lines for _, lag_s in line]
    return Axis(10.0 ** math.floor(math.log10(min(values))), max(values) * 1.6, frame.bottom, frame.y, log=True)


def _legend(step_s: float) -> Legend:
    step = "second" if step_s == 1 else f"{step_s:g} seconds"
    entries = [
        Entry(f"Lag of the timers due in each {step}:"),
        *(Entry(name, color, "line") for name, (_, color) in CURVES.items()),
        Entry("latest that is promised", BOUND, "line", dash=BOUND_DASH),
        Entry("a fault is active, or the recovery is not complete", SHADE, "shade", opacity=0.3),
    ]
    return Legend(entries, WIDTH - 2 * MARGIN)


def _draw_windows(plot: Plot, history: History, lanes: Mapping[FaultKind, Sequence[Mark]]) -> None:
    """Shade the windows in which a fault explains lateness.

    If each fault has a label, a window has the colour of its kind of fault; otherwise all windows have one colour.
    """
    windows = windows_of(history.faults, history.bounds)
    if all(mark.label for marks in lanes.values() for mark in marks):
        for began_s, until_s, fault in windows:
            plot.window(began_s, until_s, color=COLORS[fault.kind], opacity=SHADE_OPACITY, edge=True)
    else:
        for began_s, until_s in _merged(windows):
            plot.window(began_s, until_s, color=SHADE, opacity=SHADE_OPACITY)


def _merged(windows: Sequence[Window]) -> list[tuple[float, float]]:
    """Join overlapping windows, because overlapping shades would look like a darker colour."""
    merged: list[tuple[float, float]] = []
    for began_s, until_s, _ in windows:
        if merged and began_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until_s))
        else:
            merged.append((began_s, until_s))
    return merged


def _value(tick: float) -> str:
    return f"{tick:,.0f} s" if tick >= 1 else f"{tick * 1000:g} ms"
