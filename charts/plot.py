"""The part of a picture between two axes: grid, lines, shaded windows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from charts.colors import FAINT, GRID
from charts.points import Points
from charts.scales import Axis
from charts.svg import Picture


@dataclass(frozen=True)
class Frame:
    """A rectangle of the picture."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Return the x of the right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Return the y of the lower edge."""
        return self.y + self.height

    def x_axis(self, low: float, high: float, *, log: bool = False) -> Axis:
        """Create an axis from the left edge to the right edge."""
        return Axis(low, high, self.x, self.right, log)


@dataclass(frozen=True)
class Plot:
    """A frame with an axis for x and one for y; points are given as values."""

    picture: Picture
    frame: Frame
    x: Axis
    y: Axis

    def draw_y_grid(self, ticks: Iterable[float], label: Callable[[float], str]) -> None:
        """Draw a horizontal line for each tick, with a label at its left."""
        for tick in ticks:
            place = self.y.place(tick)
            self.picture.line(self.frame.x, place, self.frame.right, place, color=GRID)
            self.picture.text(self.frame.x - 6, place + 4, label(tick), size=10, anchor="end")

    def draw_x_grid(self, ticks: Iterable[float], label: Callable[[float], str]) -> None:
        """Draw a vertical line for each tick, with a label below."""
        for tick in ticks:
            place = self.x.place(tick)
            self.picture.line(place, self.frame.y, place, self.frame.bottom, color=GRID)
            self.picture.text(place, self.frame.bottom + 15, label(tick), size=10, anchor="middle")

    def draw_time_axis(self, count: int, label: Callable[[int], str]) -> None:
        """Draw the lower edge with about `count` ticks; the labels are seconds after the start."""
        bottom = self.frame.bottom
        self.picture.line(self.frame.x, bottom, self.frame.right, bottom, color=FAINT)
        for after_s in self.x.time_ticks(count):
            place = self.x.place(self.x.low + after_s)
            self.picture.line(place, bottom, place, bottom + 4, color=FAINT)
            self.picture.text(place, bottom + 15, label(after_s), size=10, anchor="middle")

    def line(self, points: Points, *, color: str, dash: str = "") -> None:
        """Draw a line through points."""
        self.picture.polyline(self._places(points), color=color, dash=dash)

    def window(self, start: float, end: float, *, color: str, opacity: float, edge: bool = False) -> None:
        """Shade a range of x from top to bottom, with a dotted line at its start if `edge`."""
        left, right, top, bottom = self.x.place(start), self.x.place(end), self.frame.y, self.frame.bottom
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.picture.polygon(corners, fill=color, opacity=opacity)
        if edge:
            self.picture.line(left, top, left, bottom, color=color, dash="2 3")

    def _places(self, points: Points) -> list[tuple[float, float]]:
        return [(self.x.place(x), self.y.place(y)) for x, y in points]
