"""Shapes and texts as SVG."""

from html import escape
from typing import Literal

FONT = "DejaVu Sans, Verdana, Helvetica, sans-serif"
WIDTH_OF_LETTER = 0.61  # of the font's size, on average

Anchor = Literal["start", "middle", "end"]


class Picture:
    """Collect shapes, the later above the earlier."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._shapes: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, *, fill: str, line: str = "none") -> None:
        """Draw a rectangle."""
        self._add("rect", x=x, y=y, width=max(width, 0), height=max(height, 0), fill=fill, stroke=line)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, color: str, dash: str = "") -> None:
        """Draw a straight line."""
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, **_dashed(dash))

    def path(self, points: list[tuple[float, float]], *, color: str, dash: str = "") -> None:
        """Draw a line through points; a single one becomes a dot."""
        if len(points) == 1:
            self._add("circle", cx=points[0][0], cy=points[0][1], r=2, fill=color)
        else:
            way = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
            self._add("polyline", points=way, fill="none", stroke=color, stroke_width=1.5, **_dashed(dash))

    def area(self, points: list[tuple[float, float]], *, fill: str, opacity: float) -> None:
        """Fill what lies between points."""
        way = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
        self._add("polygon", points=way, fill=fill, fill_opacity=opacity)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 11,
        color: str = "#57606a",
        anchor: Anchor = "start",
        bold: bool = False,
    ) -> None:
        """Write words from, around or up to a place, on the line y."""
        weight = "bold" if bold else "normal"
        attributes = _attributes(x=x, y=y, font_size=size, fill=color, text_anchor=anchor, font_weight=weight)
        self._shapes.append(f"<text {attributes}>{escape(words)}</text>")

    def __str__(self) -> str:
        """Write the whole picture."""
        head = _attributes(
            xmlns="http://www.w3.org/2000/svg",
            width=self.width,
            height=self.height,
            viewBox=f"0 0 {_short(self.width)} {_short(self.height)}",
            font_family=FONT,
        )
        return "\n".join([f"<svg {head}>", *self._shapes, "</svg>\n"])

    def _add(self, shape: str, **attributes: object) -> None:
        self._shapes.append(f"<{shape} {_attributes(**attributes)}/>")


def width_of(words: str, *, size: float = 11) -> float:
    """Guess how wide words are: without the font nobody knows."""
    return len(words) * size * WIDTH_OF_LETTER


def _dashed(dash: str) -> dict[str, str]:
    return {"stroke_dasharray": dash} if dash else {}


def _attributes(**attributes: object) -> str:
    named = ((name if name == "viewBox" else name.replace("_", "-"), value) for name, value in attributes.items())
    return " ".join(f'{name}="{escape(_short(value))}"' for name, value in named)


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
