"""Draw the picture of a table: a bar for each contender's first figure, with the spread of the rounds.

If the greatest figure is more than `LINEAR_MAX` times the least, the picture has a logarithmic axis, because the short
bars would be invisible. This axis has marks instead of bars, because the length of a bar would have no meaning.
"""

from collections.abc import Sequence
from statistics import median

from benchmarks.cases.case import Figure, Part
from benchmarks.results import Measured
from charts.colors import INK
from charts.plot import Frame, Plot
from charts.scales import Axis
from charts.svg import Picture, text_width
from charts.units import format_value

WIDTH, MARGIN, ROW_H, HEAD_H, FOOT_H = 860.0, 18.0, 30.0, 62.0, 34.0
NAMES_W, VALUES_W = 230.0, 92.0
OURS, THEIRS, SPREAD = "#2a6fb0", "#9aa4ae", "#06264d"
LINEAR_MAX = 12.0  # the largest ratio of the greatest figure to the least on a linear axis
MARK_W = 8.0


def draw(title: str, part: Part, rows: Sequence[Measured]) -> str:
    """Draw the picture as SVG; if a contender has no figure, its note replaces the bar."""
    figure = part.figures[0]
    picture = Picture(WIDTH, HEAD_H + ROW_H * len(rows) + FOOT_H)
    inside = Frame(NAMES_W, HEAD_H, WIDTH - VALUES_W - NAMES_W, ROW_H * len(rows))
    x = _axis([value for row in rows for value in row.figures.get(figure.key, ())], inside)
    more = "more is better" if figure.more_is_better else "less is better"
    picture.heading(MARGIN, title, f"{figure.title}; {more}{', logarithmic' if x.log else ''}")
    plot = Plot(picture, inside, x, Axis(0, len(rows), inside.y, inside.bottom))
    plot.draw_x_grid(x.ticks(figure.unit), lambda value: format_value(value, figure.unit))
    for number, row in enumerate(rows):
        _draw_row(plot, plot.y.place(number), row, figure)
    return str(picture)


def _axis(values: Sequence[float], inside: Frame) -> Axis:
    low, high = min(values, default=0.0), max(values, default=1.0) or 1.0
    if low > 0 and high / low > LINEAR_MAX:
        return inside.x_axis(low / 1.5, high, log=True)
    return inside.x_axis(0.0, high)


def _draw_row(plot: Plot, y: float, row: Measured, figure: Figure) -> None:
    picture, x, name = plot.picture, plot.x, row.contender
    is_ours = name.startswith("Shardclock")
    picture.text(NAMES_W - 8, y + 19, name, color=INK, anchor="end", bold=is_ours)
    values = row.figures.get(figure.key)
    if not values:
        picture.text(NAMES_W + 4, y + 19, row.note or "no figure", size=10)
        return
    middle = median(values)
    begin, end = (x.place(middle) - MARK_W / 2, x.place(middle) + MARK_W / 2) if x.log else (x.start, x.place(middle))
    picture.rect(begin, y + 6, end - begin, ROW_H - 12, fill=OURS if is_ours else THEIRS)
    left, right = x.place(min(values)), x.place(max(values))
    picture.line(left, y + ROW_H / 2, right, y + ROW_H / 2, color=SPREAD)
    for edge in (left, right):
        picture.line(edge, y + 10, edge, y + ROW_H - 10, color=SPREAD)
    told = format_value(middle, figure.unit)
    picture.text(max(right, end) + 5, y + 19, told, color=INK)
    assert text_width(told) < VALUES_W, told
