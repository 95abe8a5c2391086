"""The picture of a part: a bar for each contender, by the part's first figure, with the spread of its rounds.

Where the greatest figure is so many times the least that its bar would hide the others, the axis is logarithmic, and
there are marks instead of bars: the length of a bar says nothing on such an axis.
"""

from collections.abc import Sequence
from statistics import median

from benchmarks.cases.case import Figure, Part
from benchmarks.results import Measured
from k8s.monitoring.drawing.scales import Axis, words
from k8s.monitoring.drawing.svg import Picture, width_of

WIDTH, MARGIN, ROW_H, HEAD_H, FOOT_H = 860.0, 18.0, 30.0, 62.0, 34.0
NAMES_W, VALUES_W = 230.0, 92.0
OURS, THEIRS, BOUND, INK, FAINT, GRID = "#2a6fb0", "#9aa4ae", "#06264d", "#1f2328", "#57606a", "#e4e8ec"
LINEAR_MAX = 12.0  # times
MARK_W = 8.0


def draw(title: str, part: Part, rows: Sequence[Measured]) -> str:
    """Draw it as SVG; who has no such figure has its note instead of a bar."""
    figure = part.figures[0]
    values = [value for row in rows for value in row.figures.get(figure.key, ())]
    picture = Picture(WIDTH, HEAD_H + ROW_H * len(rows) + FOOT_H)
    picture.rect(0, 0, WIDTH, picture.height, fill="#ffffff")
    picture.text(MARGIN, 24, title, size=15, color=INK, bold=True)
    x = _axis(values)
    more = "more is better" if figure.more_is_better else "less is better"
    picture.text(MARGIN, 44, f"{figure.title}; {more}{', logarithmic' if x.log else ''}", size=11, color=FAINT)
    bottom = HEAD_H + ROW_H * len(rows)
    for tick in x.ticks(figure.unit):
        picture.line(x.place(tick), HEAD_H, x.place(tick), bottom, color=GRID)
        picture.text(x.place(tick), bottom + 16, words(tick, figure.unit), size=10, color=FAINT, anchor="middle")
    for number, row in enumerate(rows):
        _draw_row(picture, x, HEAD_H + ROW_H * number, row, figure)
    return str(picture)


def _axis(values: Sequence[float]) -> Axis:
    start, end = NAMES_W, WIDTH - VALUES_W
    low, high = min(values, default=0.0), max(values, default=1.0) or 1.0
    if low > 0 and high / low > LINEAR_MAX:
        return Axis(low / 1.5, high, start, end, log=True)
    return Axis(0.0, high, start, end)


def _draw_row(picture: Picture, x: Axis, y: float, row: Measured, figure: Figure) -> None:
    name = row.contender
    is_ours = name.startswith("Shardclock")
    picture.text(NAMES_W - 8, y + 19, name, size=11, color=INK, anchor="end", bold=is_ours)
    values = row.figures.get(figure.key)
    if not values:
        picture.text(NAMES_W + 4, y + 19, row.note or "no figure", size=10, color=FAINT)
        return
    middle = median(values)
    begin, end = (x.place(middle) - MARK_W / 2, x.place(middle) + MARK_W / 2) if x.log else (x.start, x.place(middle))
    picture.rect(begin, y + 6, end - begin, ROW_H - 12, fill=OURS if is_ours else THEIRS)
    left, right = x.place(min(values)), x.place(max(values))
    picture.line(left, y + ROW_H / 2, right, y + ROW_H / 2, color=BOUND)
    for edge in (left, right):
        picture.line(edge, y + 10, edge, y + ROW_H - 10, color=BOUND)
    told = words(middle, figure.unit)
    picture.text(max(right, end) + 5, y + 19, told, size=11, color=INK)
    assert width_of(told) < VALUES_W, told
