"""One picture of a run: how late timers were, over time, and what was broken meanwhile."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from k8s.monitoring.drawing.charts import FAINT, GRID, INK, Frame
from k8s.monitoring.drawing.scales import Axis
from k8s.monitoring.drawing.svg import Picture, width_of
from tests.chaos.history import FaultKind, History
from tests.chaos.marks import COLORS, Mark, draw_lanes, height_of, place
from tests.chaos.takeover import quantile
from tests.chaos.windows import Window, deadline_s, windows_of

WIDTH, MARGIN, HEAD_H, PLOT_H, AXIS_H = 1200.0, 22.0, 66.0, 330.0, 42.0
NAMES_W = 106.0  # left of the plot: values beside it, the kinds of faults below
POINTS_MAX = 1_300  # that still make a line and not a smear: about one a pixel
FLOOR_S = 0.0001  # what is below stands at the axis's foot

# From light to dark: max is above p99, and that above p50, so they are told apart without colour too.
CURVES: Mapping[str, tuple[float, str]] = {"max": (1.0, "#86b6e0"), "p99": (0.99, "#2a6fb0"), "p50": (0.5, "#06264d")}
BOUND, SHADE = "#b42318", "#8c959f"

Run = list[tuple[float, float]]


class Plot(NamedTuple):
    """The part of the picture where curves are: from seconds since 1970 and seconds of lag to places."""

    picture: Picture
    frame: Frame
    x: Axis
    y: Axis

    def path(self, run: Run, color: str, dash: str = "") -> None:
        """Draw a line through moments and lags."""
        self.picture.path([(self.x.place(at), self.y.place(lag_s)) for at, lag_s in run], color=color, dash=dash)


def draw(history: History, lags: Sequence[tuple[float, float]], title: str) -> str:
    """Draw lag over time as SVG, and each fault as a mark below, in a row for its kind.

    shape:  `lags` are when a timer fired, and how late it was; it is drawn at the moment when it was due
    """
    frame = Frame(NAMES_W, HEAD_H, WIDTH - NAMES_W - MARGIN, PLOT_H)
    x = Axis(history.began_at, max(history.ended_at, history.began_at + 1), frame.x, frame.right)
    lanes = place(history.faults, x)
    step_s = _step(x.high - x.low)
    curves = _curves(history, lags, step_s)
    bound = list(_bound(history))
    picture = Picture(WIDTH, frame.bottom + AXIS_H + height_of(lanes) + MARGIN)
    picture.rect(0, 0, WIDTH, picture.height, fill="#ffffff")
    picture.text(MARGIN, 24, title, size=16, color=INK, bold=True)
    plot = Plot(picture, frame, x, _axis([*curves.values(), bound], frame))
    _draw_legend(picture, step_s)
    _draw_shades(plot, history, lanes)
    _draw_grid(plot)
    for name, points in curves.items():
        for run in _runs(points, step_s):
            plot.path(run, CURVES[name][1])
    plot.path(bound, BOUND, "6 3")
    draw_lanes(picture, lanes, x, frame.bottom + AXIS_H)
    return str(picture)


def _step(length_s: float) -> float:
    """Choose over how many seconds a point of a curve is taken: one, unless the run is too long for that."""
    return next((s for s in (1, 2, 5, 10, 15, 30, 60) if length_s / s <= POINTS_MAX), 300)


def _curves(history: History, lags: Sequence[tuple[float, float]], step_s: float) -> dict[str, Run]:
    steps: defaultdict[int, list[float]] = defaultdict(list)
    for fired_at, lag_s in lags:
        steps[int((fired_at - lag_s - history.began_at) // step_s)].append(lag_s)
    points = [(history.began_at + (number + 0.5) * step_s, steps[number]) for number in sorted(steps)]
    return {name: [(at, quantile(late, q)) for at, late in points] for name, (q, _) in CURVES.items()}


def _bound(history: History) -> Iterator[tuple[float, float]]:
    """Say how late a timer may be that is due at a moment, as the checker has it: each second, and where it leaps."""
    normal_s, windows = history.bounds.normal_s, windows_of(history.faults, history.bounds)
    # A timer that is due just before a fault may run into it.
    leaps = [window.began_s - normal_s + beside for window in windows for beside in (-0.001, 0.001)]
    paces = [history.began_at + number for number in range(int(history.ended_at - history.began_at) + 1)]
    for at in sorted([*paces, *(leap for leap in leaps if leap > history.began_at)]):
        yield at, deadline_s(windows, at, allowed_s=normal_s) - at


def _axis(lines: Sequence[Run], frame: Frame) -> Axis:
    values = [max(lag_s, FLOOR_S) for line in lines for _, lag_s in line]
    return Axis(10.0 ** math.floor(math.log10(min(values))), max(values) * 1.6, frame.bottom, frame.y, log=True)


def _draw_legend(picture: Picture, step_s: float) -> None:
    step = "second" if step_s == 1 else f"{step_s:g} seconds"
    x, y = MARGIN, 48.0
    entries = [*((name, color, "") for name, (_, color) in CURVES.items()), ("latest that is promised", BOUND, "6 3")]
    for name, color, dash in [(f"Lag of the timers due in each {step}:", "", ""), *entries]:
        if color:
            picture.path([(x, y - 4), (x + 22, y - 4)], color=color, dash=dash)
            x += 27
        picture.text(x, y, name, size=10)
        x += width_of(name, size=10) + 16
    picture.area([(x, y - 10), (x + 22, y - 10), (x + 22, y + 2), (x, y + 2)], fill=SHADE, opacity=0.3)
    picture.text(x + 27, y, "something is broken, or not yet healed", size=10)


def _draw_shades(plot: Plot, history: History, lanes: Mapping[FaultKind, Sequence[Mark]]) -> None:
    """Shade the windows in which a fault explains lateness: each in its kind's colour while there are few."""
    windows = windows_of(history.faults, history.bounds)
    if all(mark.label for marks in lanes.values() for mark in marks):
        shades = [(began_s, until_s, COLORS[fault.kind]) for began_s, until_s, fault in windows]
    else:
        shades = [(began_s, until_s, SHADE) for began_s, until_s in _merged(windows)]
    top, bottom = plot.frame.y, plot.frame.bottom
    for began_s, until_s, color in shades:
        left, right = plot.x.place(began_s), plot.x.place(until_s)
        plot.picture.area([(left, top), (right, top), (right, bottom), (left, bottom)], fill=color, opacity=0.14)
        if color != SHADE:
            plot.picture.line(left, top, left, bottom, color=color, dash="2 3")


def _merged(windows: Sequence[Window]) -> list[tuple[float, float]]:
    """Join windows that overlap: a shade upon a shade would look darker."""
    merged: list[tuple[float, float]] = []
    for began_s, until_s, _ in windows:
        if merged and began_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until_s))
        else:
            merged.append((began_s, until_s))
    return merged


def _draw_grid(plot: Plot) -> None:
    picture, frame, bottom = plot.picture, plot.frame, plot.frame.bottom
    for tick in plot.y.ticks("s"):
        picture.line(frame.x, plot.y.place(tick), frame.right, plot.y.place(tick), color=GRID)
        picture.text(frame.x - 6, plot.y.place(tick) + 4, _value(tick), size=10, anchor="end")
    length_s = plot.x.high - plot.x.low
    step_s = next((s for s in (5, 10, 20, 30, 60, 120, 300, 600, 1200) if length_s / s <= 16), 3600)
    for at_s in range(0, int(length_s) + 1, step_s):
        across = plot.x.place(plot.x.low + at_s)
        picture.line(across, bottom, across, bottom + 4, color=FAINT)
        picture.text(across, bottom + 15, f"{at_s:,}", size=10, anchor="middle")
    picture.line(frame.x, bottom, frame.right, bottom, color=FAINT)
    picture.text(frame.x + frame.width / 2, bottom + 30, "seconds of the run", size=10, anchor="middle")


def _value(tick: float) -> str:
    return f"{tick:,.0f} s" if tick >= 1 else f"{tick * 1000:g} ms"


def _runs(points: Run, step_s: float) -> Iterator[Run]:
    """Cut a line where nothing was due."""
    run: Run = []
    for point in points:
        if run and point[0] - run[-1][0] > step_s * 1.5:
            yield run
            run = []
        run.append(point)
    if run:
        yield run
