"""Place the bars of a chart: the timers of each coming minute, stacked by target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 120  # The size of the drawing, in SVG units.
TOP, BOTTOM = 12, 18  # Space for the largest number, and for the minutes.


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle of the chart, and the numbers that it shows."""

    x: int
    y: int
    width: int
    height: int
    minute: int
    target: str
    timers: int
    series: int


@dataclass(frozen=True, slots=True)
class BarChart:
    """A chart: the bars, the targets in the order of their colours, and the number of timers in the busiest minute."""

    bars: Sequence[Bar]
    targets: Sequence[tuple[str, int]]
    largest: int
    ticks: Sequence[tuple[int, int]]  # x and minute
    width: int = WIDTH
    height: int = HEIGHT


def chart_of(minutes: Sequence[Mapping[str, int]], targets: Sequence[tuple[str, int]]) -> BarChart:
    """Stack the timers of each minute; the target with the most timers is at the bottom."""
    step = WIDTH // len(minutes)
    largest = max((sum(minute.values()) for minute in minutes), default=0)
    bars = []
    for number, minute in enumerate(minutes):
        below = 0
        for series, (target, _) in enumerate(targets):
            timers = minute.get(target, 0)
            # A height is the difference of two rounded positions, so that no gap opens between the bars of a stack.
            start, end = _height_of(below, largest), _height_of(below + timers, largest)
            below += timers
            if timers:
                y = HEIGHT - BOTTOM - max(end, start + 1)
                bars.append(Bar(number * step, y, step - 2, max(1, end - start), number + 1, target, timers, series))
    ticks = [(number * step, number) for number in range(0, len(minutes), 5)]
    return BarChart(bars, targets, largest, ticks)


def _height_of(timers: int, largest: int) -> int:
    return round(timers / largest * (HEIGHT - TOP - BOTTOM)) if largest else 0
