"""What a dashboard is made of: rows of panels, and the queries of each panel.

Queries are PromQL as Grafana takes it, with its variables `$job` and `$__rate_interval`; units and colours have
Grafana's names. Places follow from the order: panels of a row share its width equally, unless they name their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal

COLUMNS = 24  # of Grafana's grid

Color = Literal["blue", "green", "orange", "purple", "red", "text", "yellow"]
Unit = Literal["Bps", "bytes", "cps", "none", "percentunit", "s", "short"]


@dataclass(frozen=True)
class Query:
    """What a panel asks of Prometheus; `{{label}}` in the legend is a series' label."""

    expr: str
    legend: str = ""
    color: Color | None = None  # None: the palette's next
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """What all panels have; `runbooks` are those of the alerts that the panel shows."""

    instant: ClassVar[bool] = False  # asked about this instant, not about a span of time

    title: str
    description: str
    _: KW_ONLY
    unit: Unit
    queries: Sequence[Query]
    runbooks: Sequence[str] = ()
    width: int | None = None  # of COLUMNS


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """The last value of each query, large."""

    color: Color = "text"
    color_from: Mapping[float, Color] = field(default_factory=dict)  # values from which another colour holds, rising
    names: Mapping[int, tuple[str, Color]] = field(default_factory=dict)  # values that are shown as a word
    decimals: int | None = None
    sparkline: bool = True
    shows: Literal["value", "name", "value_and_name"] = "value"


@dataclass(frozen=True, kw_only=True)
class TimeSeries(Panel):
    """Values over time: lines, areas on top of each other, or bars on top of each other."""

    style: Literal["lines", "stacked", "bars"] = "lines"
    log: bool = False
    from_zero: bool = True


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """A histogram over time; its one query gives cumulated buckets by their label `le`."""

    edge_unit: Unit


@dataclass(frozen=True, kw_only=True)
class BarChart(Panel):
    """Values of this instant, side by side, by a label that all queries have."""

    instant: ClassVar[bool] = True

    label: str
    value_label: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """Panels side by side, under a title if the row has one."""

    title: str = ""
    height: int = 8
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Place:
    """Where a panel stands in Grafana's grid."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """Rows, from the top."""

    name: str
    description: str
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """Say how Grafana lists it."""
        return f"Shardclock: {self.name}"

    @property
    def panels(self) -> list[Panel]:
        """List all panels, without the rows' titles."""
        return [panel for row in self.rows for panel in row.panels]

    def places(self) -> Iterator[tuple[Panel | str, Place]]:
        """Place all panels and the rows' titles, from the top, from left to right."""
        y = 0
        for row in self.rows:
            if row.title:
                yield row.title, Place(0, y, COLUMNS, 1)
                y += 1
            x = 0
            for panel in row.panels:
                width = panel.width or COLUMNS // len(row.panels)
                yield panel, Place(x, y, width, row.height)
                x += width
            y += row.height
