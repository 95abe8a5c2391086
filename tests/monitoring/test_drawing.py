"""Prove the parts of the dashboards' pictures that need no Prometheus: names, layers, gaps, and that all are drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from charts.plot import Frame
from charts.svg import Picture
from k8s.monitoring.dashboards import DASHBOARDS
from k8s.monitoring.dashboards.spec import BarChart, Dashboard, Heatmap, Query, Stat, TimeSeries
from k8s.monitoring.drawing.page import draw
from k8s.monitoring.drawing.panels import draw_stat, draw_time_series
from k8s.monitoring.drawing.source import Series, Source, Span, name_of

SPAN = Span(0.0, 60.0, 1.0)
FRAME = Frame(0, 0, 400, 200)
VARIABLES = {"job": "shardclock", "__rate_interval": "15s"}
EDGES = ["0.01", "0.1", "1", "+Inf"]


class Recorded(Source):
    """A Prometheus that gives the same answer to every question: four series, each with a point a second."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__("http://nowhere.example", SPAN, variables)
        self.asked: list[dict[str, Any]] = []

    def _ask(self, path: str, **parameters: object) -> list[dict[str, object]]:
        self.asked.append({"path": path, **parameters})
        values = [[at, str(1 + at % 7)] for at in range(61)]
        labels = {"shard": "3", "reason": "died", "loop": "fire", "group": "g", "version": "1", "table": "t"}
        answers = [{**labels, "le": edge, "minute": f"0{number}"} for number, edge in enumerate(EDGES)]
        return [{"metric": metric, "values": values} for metric in answers]


def test_a_series_is_named_by_its_labels() -> None:
    assert name_of(Query("", "shard {{shard}}, {{ loop }}"), {"shard": "3", "loop": "fires"}) == "shard 3, fires"


def test_variables_are_filled_in_and_one_that_nobody_gives_is_an_error() -> None:
    query = Query('sum(rate(a_total{job="$job"}[${__rate_interval}]))')
    source = Recorded(VARIABLES)
    source.series(query)
    assert source.asked[0]["query"] == 'sum(rate(a_total{job="shardclock"}[15s]))'
    with pytest.raises(KeyError, match="__rate_interval"):
        Recorded({"job": "shardclock"}).series(query)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_each_panel_of_each_dashboard_is_drawn(dashboard: Dashboard) -> None:
    source = Recorded(VARIABLES)
    drawn = ET.fromstring(draw(dashboard, source, {20.0: "a test"}))
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {panel.title for panel in dashboard.panels} | {row.title for row in dashboard.rows if row.title} <= {*texts}
    assert "no data" not in texts
    assert "1:00 minutes in all; (a) a test at 0:20" in texts
    over_time = [panel for panel in dashboard.panels if isinstance(panel, TimeSeries | Heatmap)]
    assert texts.count("a") == len(over_time)
    instants = sum(len(panel.queries) for panel in dashboard.panels if isinstance(panel, BarChart))
    assert [question["path"] for question in source.asked].count("query") == instants


def test_stacked_series_lie_on_top_of_each_other() -> None:
    drawn = _time_series([_series("a", [1, 1]), _series("b", [2, 2])], style="stacked")
    shapes = [_points(shape) for shape in drawn.iter() if shape.tag.endswith("polygon")]
    # What is drawn first is the upper one: the lower one's line lies above it.
    (upper_top, upper_floor), (lower_top, lower_floor) = [
        (min(y for _, y in shape), max(y for _, y in shape)) for shape in shapes
    ]
    assert upper_floor == lower_top
    assert lower_floor - upper_top == pytest.approx(3 * (lower_floor - lower_top), rel=0.02)


def test_a_line_has_a_gap_where_there_was_no_data() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (30.0, 1.0), (31.0, 2.0)]
    drawn = _time_series([Series("a", {}, points)])
    assert sum(shape.tag.endswith("polyline") for shape in drawn.iter()) == 2


def test_a_query_s_own_colour_and_dash_are_its_series() -> None:
    drawn = _time_series([_series("a", [1, 1]), _series("limit", [2, 2])])
    (limit,) = [shape for shape in drawn.iter() if "stroke-dasharray" in shape.attrib]
    assert limit.attrib["stroke"] == "#d1242f"


@pytest.mark.parametrize(("value", "shown", "color"), [(0, "down", "#d1242f"), (1, "up", "#1a7f37")])
def test_a_single_value_is_shown_by_its_name_and_in_its_colour(value: float, shown: str, color: str) -> None:
    names: Any = {0: ("down", "red"), 1: ("up", "green")}
    panel = Stat("", "", unit="none", queries=[], color="red", color_from={1: "green"}, names=names)
    picture = Picture(400, 200)
    draw_stat(picture, FRAME, panel, [_series("", [value, value])], SPAN)
    (text,) = [element for element in ET.fromstring(str(picture)).iter() if element.tag.endswith("text")]
    assert (text.text, text.attrib["fill"]) == (shown, color)


def _series(name: str, values: list[float]) -> Series:
    return Series(name, {}, [(float(at), value) for at, value in enumerate(values)])


def _time_series(series: list[Series], **more: Any) -> ET.Element:
    queries = [Query("", "a"), Query("", "limit", color="red", dashed=True)]
    picture = Picture(400, 200)
    draw_time_series(picture, FRAME, TimeSeries("", "", unit="short", queries=queries, **more), series, SPAN)
    return ET.fromstring(str(picture))


def _points(shape: ET.Element) -> list[tuple[float, float]]:
    pairs = (point.split(",") for point in shape.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]
