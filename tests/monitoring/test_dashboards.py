"""Test that Grafana's JSON equals the dashboards' spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from k8s.monitoring.dashboards import DASHBOARDS
from k8s.monitoring.dashboards.grafana import to_json
from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries
from tests.support import ROOT

FOLDER = ROOT / "k8s/monitoring/dashboards"
QUERY = Query('sum(a{job="$job"})', "a")


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_the_json_equals_the_output_of_make_dashboards(dashboard: Dashboard) -> None:
    written = (FOLDER / f"{dashboard.name}.json").read_text()
    assert to_json(dashboard) == written, "the dashboards' spec has changed: run make dashboards"


def test_every_dashboard_is_written_and_installed() -> None:
    names = {f"{dashboard.name}.json" for dashboard in DASHBOARDS}
    assert {file.name for file in FOLDER.glob("*.json")} == names
    maps = yaml.safe_load((FOLDER.parent / "kustomization.yaml").read_text())["configMapGenerator"]
    assert {Path(file).name for each in maps for file in each["files"]} == names


def test_panels_are_side_by_side_below_the_title_of_their_row() -> None:
    written = _written(
        Row(height=4, panels=[_panel(), _panel(), _panel()]),
        Row(title="More", panels=[_panel(width=18), _panel(width=6)]),
    )
    places = [tuple(panel["gridPos"][name] for name in "xywh") for panel in written["panels"]]
    assert places == [(0, 0, 8, 4), (8, 0, 8, 4), (16, 0, 8, 4), (0, 4, 24, 1), (0, 5, 18, 8), (18, 5, 6, 8)]
    assert [panel["id"] for panel in written["panels"]] == [1, 2, 3, 4, 5, 6]
    assert written["panels"][3]["type"] == "row"


def test_a_stat_has_the_thresholds_of_its_colours() -> None:
    panel = Stat(
        "", "", unit="s", queries=[QUERY], color="green", color_from={1: "orange", 10: "red"}, names={0: ("no", "red")}
    )
    defaults = _written(Row(panels=[panel]))["panels"][0]["fieldConfig"]["defaults"]
    steps = [(step["value"], step["color"]) for step in defaults["thresholds"]["steps"]]
    assert steps == [(None, "green"), (1, "orange"), (10, "red")]
    assert defaults["mappings"][0]["options"] == {"0": {"text": "no", "color": "red", "index": 0}}


def test_a_query_with_a_colour_overrides_the_colour_of_its_series_only() -> None:
    dashed = Query("b", "limit", color="red", dashed=True)
    panel = TimeSeries("", "", unit="s", queries=[QUERY, dashed], style="stacked", log=True)
    (written,) = _written(Row(panels=[panel]))["panels"]
    (override,) = written["fieldConfig"]["overrides"]
    assert override["matcher"] == {"id": "byName", "options": "limit"}
    assert [it["id"] for it in override["properties"]] == ["color", "custom.lineStyle", "custom.fillOpacity"]
    assert [target["refId"] for target in written["targets"]] == ["A", "B"]
    custom = written["fieldConfig"]["defaults"]["custom"]
    assert (custom["stacking"]["mode"], custom["scaleDistribution"]["type"]) == ("normal", "log")


def _panel(width: int | None = None) -> TimeSeries:
    return TimeSeries("a title", "a description", unit="s", queries=[QUERY], width=width)


def _written(*rows: Row) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(to_json(Dashboard(name="a", description="", rows=rows)))
    return written
