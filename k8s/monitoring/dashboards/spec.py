"""The parts of a dashboard: rows of panels, and the queries of each panel.

Queries are PromQL with Grafana's variables `$job` and `$__rate_interval`; units and colours have Grafana's names.
Panels are placed in their order, and divide the width of a row equally, unless they set a width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal

COLUMNS = 24  # the width of Grafana's grid

Color = Literal["blue", "green", "orange", "purple", "red", "text", "yellow"]
Unit = Literal["Bps", "bytes", "cps", "none", "percentunit", "s", "short"]


@dataclass(frozen=True)
class Query:
    """A query of a panel to Prometheus; the legend may contain labels of the series as `{{label}}`."""

    expr: str
    legend: str = ""
    color: Color | None = None  # None: the next colour of the palette
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """The common fields of panels; `runbooks` names the alerts for which the panel is useful."""

    instant: ClassVar[bool] = False  # the query returns only the present value

    title: str
    description: str
    _: KW_ONLY
    unit: Unit
    queries: Sequence[Query]
    runbooks: Sequence[str] = ()
    width: int | None = None  # a number of COLUMNS


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """A panel that shows the last value of each query in large digits."""

    color: Color = "text"
    color_from: Mapping[float, Color] = field(default_factory=dict)  # the least value for each colour, ascending
    names: Mapping[int, tuple[str, Color]] = field(default_factory=dict)  # values that the panel shows as texts
    decimals: int | None = None
    sparkline: bool = True
    shows: Literal["value", "name", "value_and_name"] = "value"


@dataclass(frozen=True, kw_only=True)
class TimeSeries(Panel):
    """A panel that shows values over time, as lines, stacked areas or stacked bars."""

    style: Literal["lines", "stacked", "bars"] = "lines"
    log: bool = False
    from_zero: bool = True


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """A histogram over time; its only query returns cumulative buckets by their label `le`."""

    edge_unit: Unit


@dataclass(frozen=True, kw_only=True)
class BarTable(Panel):
    """A table of present values, with one row for each value of a label that all queries have."""

    instant: ClassVar[bool] = True

    label: str
    value_label: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of panels, with an optional title."""

    title: str = ""
    height: int = 8
    panels: Sequence[Panel]


@dataclass(frozen=True)
class PanelPosition:
    """The position of a panel in Grafana's grid."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard with its rows, from top to bottom."""

    name: str
    description: str
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """Return the dashboard's title in Grafana's list."""
        return f"Shardclock: {self.name}"

    @property
    def panels(self) -> list[Panel]:
        """List all panels, without the rows' titles."""
        return [panel for row in self.rows for panel in row.panels]

    def places(self) -> Iterator[tuple[Panel | str, PanelPosition]]:
        """Place all panels and the rows' titles, from the top, from left to right."""
        y = 0
        for row in self.rows:
            if row.title:
                yield row.title, PanelPosition(0, y, COLUMNS, 1)
                y += 1
            x = 0
            for panel in row.panels:
                width = panel.width or COLUMNS // len(row.panels)
                yield panel, PanelPosition(x, y, width, row.height)
                x += width
            y += row.height
