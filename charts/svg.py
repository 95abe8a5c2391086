"""Shapes and texts as SVG."""

from collections.abc import Sequence
from html import escape
from typing import Literal

from charts.colors import FAINT, INK, WHITE

FONT = "DejaVu Sans, Verdana, Helvetica, sans-serif"
LETTER_WIDTH = 0.61  # the mean width of a letter, as a fraction of the font size

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


class Picture:
    """Collect shapes; later shapes cover earlier shapes. The same shapes always give the same SVG text."""

    def __init__(self, width: float, height: float, *, background: str = WHITE) -> None:
        self.width, self.height = width, height
        self._shapes: list[str] = []
        self.rect(0, 0, width, height, fill=background)

    def heading(self, x: float, title: str, subtitle: str = "") -> None:
        """Write the title at the top, and the subtitle in the line below."""
        self.text(x, 24, title, size=16, color=INK, bold=True)
        if subtitle:
            self.text(x, 44, subtitle)

    def rect(self, x: float, y: float, width: float, height: float, *, fill: str, line: str = "none") -> None:
        """Draw a rectangle."""
        self._add("rect", x=x, y=y, width=max(width, 0), height=max(height, 0), fill=fill, stroke=line)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, color: str, dash: str = "") -> None:
        """Draw a straight line."""
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, **_dashed(dash))

    def polyline(self, places: Sequence[Point], *, color: str, dash: str = "") -> None:
        """Draw a line through points; a single point becomes a dot."""
        if len(places) == 1:
            self._add("circle", cx=places[0][0], cy=places[0][1], r=2, fill=color)
        else:
            self._add("polyline", points=_listed(places), fill="none", stroke=color, stroke_width=1.5, **_dashed(dash))

    def polygon(self, corners: Sequence[Point], *, fill: str, opacity: float) -> None:
        """Fill the polygon with these corners."""
        self._add("polygon", points=_listed(corners), fill=fill, fill_opacity=opacity)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 11,
        color: str = FAINT,
        anchor: Anchor = "start",
        bold: bool = False,
    ) -> None:
        """Draw a text on the base line y, with its start, middle or end at x."""
        weight = "bold" if bold else "normal"
        attributes = _attributes(x=x, y=y, font_size=size, fill=color, text_anchor=anchor, font_weight=weight)
        self._shapes.append(f"<text {attributes}>{escape(text)}</text>")

    def __str__(self) -> str:
        """Return the picture as SVG text."""
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


def text_width(text: str, *, size: float = 11) -> float:
    """Estimate the width of a text, because the font of the viewer is unknown."""
    return len(text) * size * LETTER_WIDTH


def _listed(places: Sequence[Point]) -> str:
    return " ".join(f"{_short(x)},{_short(y)}" for x, y in places)


def _dashed(dash: str) -> dict[str, str]:
    return {"stroke_dasharray": dash} if dash else {}


def _attributes(**attributes: object) -> str:
    named = ((name if name == "viewBox" else name.replace("_", "-"), value) for name, value in attributes.items())
    return " ".join(f'{name}="{escape(_short(value))}"' for name, value in named)


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
