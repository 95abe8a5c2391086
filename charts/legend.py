"""A legend: names with samples of their colours, in as many rows as necessary."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from charts.svg import Picture, text_width

ROW_H, SIZE = 16.0, 10.0
BOX_W, LINE_W = 10.0, 22.0
SAMPLE_GAP, ENTRY_GAP = 4.0, 12.0


@dataclass(frozen=True)
class Entry:
    """A name with a sample of its colour; without a colour only the name."""

    name: str
    color: str = ""
    sample: Literal["box", "line", "shade"] = "box"
    dash: str = ""
    opacity: float = 1.0

    @property
    def sample_width(self) -> float:
        """Return the distance from the left edge of the entry to its name."""
        return 0.0 if not self.color else SAMPLE_GAP + (BOX_W if self.sample == "box" else LINE_W)

    def draw(self, picture: Picture, x: float, y: float) -> None:
        """Draw the entry on the base line y."""
        if self.color and self.sample == "line":
            picture.polyline([(x, y - 4), (x + LINE_W, y - 4)], color=self.color, dash=self.dash)
        elif self.color and self.sample == "shade":
            corners = [(x, y - 10), (x + LINE_W, y - 10), (x + LINE_W, y + 2), (x, y + 2)]
            picture.polygon(corners, fill=self.color, opacity=self.opacity)
        elif self.color:
            picture.rect(x, y - 8, BOX_W, 8, fill=self.color)
        picture.text(x + self.sample_width, y, self.name, size=SIZE)


class Legend:
    """Entries from left to right, in rows of at most `width`."""

    def __init__(self, entries: Sequence[Entry], width: float) -> None:
        self._places: list[tuple[Entry, float, int]] = []
        x, row = 0.0, 0
        for entry in entries:
            entry_w = entry.sample_width + text_width(entry.name, size=SIZE) + ENTRY_GAP
            if x > 0 and x + entry_w > width:
                x, row = 0.0, row + 1
            self._places.append((entry, x, row))
            x += entry_w
        self.height = (row + 1) * ROW_H if entries else 0.0

    def draw(self, picture: Picture, x: float, y: float) -> None:
        """Draw the legend with its upper left corner at this position."""
        for entry, left, row in self._places:
            entry.draw(picture, x + left, y + 11 + row * ROW_H)
