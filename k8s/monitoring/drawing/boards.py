"""A dashboard's panels and queries, with Grafana's variables filled in."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARDS = Path(__file__).resolve().parents[1] / "dashboards"
VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Query:
    """What one target of a panel asks, and how its series are called."""

    expr: str
    legend: str
    instant: bool

    def name_of(self, labels: Mapping[str, str]) -> str:
        """Name a series as Grafana does."""
        return re.sub(r"\{\{ *(\w+) *\}\}", lambda found: labels.get(found[1], ""), self.legend)


@dataclass(frozen=True)
class Panel:
    """One panel: what it asks, where it stands, and how it wants to be drawn."""

    kind: str
    title: str
    place: Mapping[str, int]
    queries: tuple[Query, ...]
    json: Mapping[str, Any]

    @property
    def unit(self) -> str:
        """Name the unit of its values, as Grafana does."""
        return str(self._defaults.get("unit", "short"))

    @property
    def is_stacked(self) -> bool:
        """Say whether its series lie on top of each other."""
        return bool(self._custom.get("stacking", {}).get("mode") == "normal")

    @property
    def is_bars(self) -> bool:
        """Say whether its series are drawn as bars over time."""
        return bool(self._custom.get("drawStyle") == "bars")

    @property
    def is_log(self) -> bool:
        """Say whether its axis is logarithmic."""
        return bool(self._custom.get("scaleDistribution", {}).get("type") == "log")

    @property
    def from_zero(self) -> bool:
        """Say whether its axis begins at zero."""
        return self._defaults.get("min") == 0

    @property
    def steps(self) -> list[tuple[float, str]]:
        """List the values from which another colour holds, the lowest first."""
        steps = self._defaults.get("thresholds", {}).get("steps", [])
        return [(float("-inf") if step["value"] is None else step["value"], step["color"]) for step in steps]

    def words(self, value: float) -> str | None:
        """Give what a value is called here instead of its number, if anything."""
        for mapping in self._defaults.get("mappings", []):
            if found := mapping["options"].get(f"{value:g}"):
                return str(found["text"])
        return None

    def override(self, series: str, name: str) -> Any:
        """Give a property that is set for one series only."""
        for override in self.json["fieldConfig"]["overrides"]:
            if override["matcher"] == {"id": "byName", "options": series}:
                return next((p["value"] for p in override["properties"] if p["id"] == name), None)
        return None

    @property
    def _defaults(self) -> Mapping[str, Any]:
        defaults: Mapping[str, Any] = self.json.get("fieldConfig", {}).get("defaults", {})
        return defaults

    @property
    def _custom(self) -> Mapping[str, Any]:
        custom: Mapping[str, Any] = self._defaults.get("custom", {})
        return custom


@dataclass(frozen=True)
class Dashboard:
    """One dashboard, in the order of its file."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def dashboards(variables: Mapping[str, str]) -> Iterator[Dashboard]:
    """Read all dashboards, with variables such as job and __rate_interval filled in.

    errors:  KeyError  a query has a variable that is not given
    """
    for file in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(file.read_text(encoding="utf-8"))
        panels = tuple(_panel(panel, variables) for panel in board["panels"])
        yield Dashboard(file.stem, board["title"], panels)


def _panel(panel: Mapping[str, Any], variables: Mapping[str, str]) -> Panel:
    queries = tuple(
        Query(
            expr=VARIABLE.sub(lambda found: variables[found[1]], target["expr"]),
            legend=target["legendFormat"],
            instant=target.get("instant", False),
        )
        for target in panel.get("targets", [])
    )
    return Panel(panel["type"], panel["title"], panel["gridPos"], queries, panel)
