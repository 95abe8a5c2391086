"""Test that metrics, docs, dashboards and rules have the same names."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.families import OF_EXPORTER, READ
from shardclock_server.metrics.page import of_exporter
from tests.support import ROOT
from tests.support.metric_names import metric_of, shown_name
from tests.support.prometheus import promtool
from tests.support.rules import RULES, RUNBOOKS, alerts

ALERTS_PAGE = (ROOT / "docs/operate/monitoring.md").read_text()
METRICS_PAGE = (ROOT / "docs/operate/metrics.md").read_text()
DASHBOARDS = sorted((ROOT / "k8s/monitoring/dashboards").glob("*.json"))
BOARDS = [json.loads(file.read_text()) for file in DASHBOARDS]
PANELS = [
    pytest.param(panel, id=f"{board['uid']}: {panel['title']}")
    for board in BOARDS
    for panel in board["panels"]
    if panel["type"] != "row"
]
FAMILIES = {shown_name(family): family for family in [*REPORTED.values(), *READ.values()]}
NAMES = FAMILIES.keys() | {shown_name(family) for family in OF_EXPORTER.values()}
ASKED = re.compile(r"(?<![\w:])shardclock_\w+(?![\w:])")


class AllSeries(Collector):
    """Serve one series of each family, as an exporter does when all sources report all metrics."""

    def collect(self) -> Any:
        yield from map(metric_of, FAMILIES.values())
        yield from of_exporter(sources=1, reports=1, refused=0)

    def describe(self) -> list[Metric]:
        return []


def test_promtool_accepts_each_metric() -> None:
    registry = CollectorRegistry()
    registry.register(AllSeries())
    assert promtool("check", "metrics", stdin=generate_latest(registry).decode()) == ""


def test_the_docs_list_exactly_the_metrics() -> None:
    told = dict(re.findall(r"^\| `(shardclock_\w+)` \| ([^|]*)\|", METRICS_PAGE, re.MULTILINE))
    assert told.keys() == NAMES
    for name, family in FAMILIES.items():
        assert told[name].strip() == ", ".join(family.label_names), name


def test_the_docs_list_each_alert_with_its_severity() -> None:
    told = re.findall(r"^\| \[(\w+)\]\(runbooks/(\w+)\.md\) \| (\w+) \|", ALERTS_PAGE, re.MULTILINE)
    assert told == [(name, name, alert["labels"]["severity"]) for name, alert in alerts().items()]


def test_rules_and_panels_query_existing_metrics() -> None:
    texts = [RULES.read_text().partition("\nspec:\n")[2], *(file.read_text() for file in DASHBOARDS)]
    asked = {name for text in texts for name in ASKED.findall(text)}
    assert {_family_of(name) for name in asked} <= NAMES


def test_each_metric_is_on_a_panel() -> None:
    seen = {_family_of(name) for file in DASHBOARDS for name in ASKED.findall(file.read_text())}
    assert NAMES - seen == set()


def test_panels_use_series_that_the_rules_record() -> None:
    recorded = set(re.findall(r"record: (\S+)", RULES.read_text()))
    for file in DASHBOARDS:
        assert set(re.findall(r"[a-z_]+:shardclock_\w+:\w+", file.read_text())) <= recorded, file.name


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["uid"])
def test_a_dashboard_is_complete_by_itself(board: dict[str, Any]) -> None:
    assert board["uid"].startswith("shardclock-")
    assert board["description"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "job", "docs"]
    places = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places), "panels overlap"
    assert all(x < 24 for x, _ in places)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_has_a_description_a_unit_and_links_to_runbooks(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 20
    assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "short", "none", "cps", "percentunit", "bytes", "Bps"}
    for asker in (panel, *panel["targets"]):
        assert asker["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for target in panel["targets"]:
        assert 'job="$job"' in target["expr"] or target["expr"] == "vector(0.1)"
    for link in panel.get("links", []):
        page = link["url"].removeprefix("${docs}")
        assert page.startswith(RUNBOOKS)
        assert (ROOT / page).is_file()


@pytest.mark.parametrize("name", alerts())
def test_a_panel_links_to_each_runbook(name: str) -> None:
    linked = {link["title"] for board in BOARDS for panel in board["panels"] for link in panel.get("links", [])}
    if name != "ShardclockExporterAbsent":  # without an exporter the panels are empty
        assert f"Runbook: {name}" in linked


def _family_of(series: str) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        name = series.removesuffix(suffix)
        if name in FAMILIES and FAMILIES[name].kind == "histogram":
            return name
    return series
