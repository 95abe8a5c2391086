"""Prove the parts of the pictures that need no Prometheus: scales, units, and what lies on top of what."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from k8s.monitoring.drawing.boards import Panel, Query, dashboards
from k8s.monitoring.drawing.charts import CHARTS, Frame
from k8s.monitoring.drawing.scales import Axis, axis_for, words
from k8s.monitoring.drawing.source import Series, Span
from k8s.monitoring.drawing.svg import Picture

SPAN = Span(0.0, 60.0, 1.0)
FRAME = Frame(0, 0, 400, 200)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0123, "s", "12.3 ms"),
        (0, "s", "0 s"),
        (5400, "s", "1.5 h"),
        (-0.002, "s", "-2 ms"),
        (12_345, "cps", "12.3 k/s"),
        (0.9951, "percentunit", "99.5 %"),
        (3 * 2**20, "bytes", "3 MiB"),
        (512, "Bps", "512 B/s"),
        (840, "none", "840"),
        (719_000, "short", "719 k"),
    ],
)
def test_a_value_is_written_with_its_unit(value: float, unit: str, shown: str) -> None:
    assert words(value, unit) == shown


def test_an_axis_holds_all_values_and_marks_round_ones() -> None:
    axis = axis_for([3.0, 97.0], 100, 0, log=False, from_zero=True)
    assert (axis.place(0), axis.place(axis.high)) == (100, 0)
    assert axis.ticks("short", count=5) == [0, 20, 40, 60, 80, 100]
    assert axis_for([0.004, 2.0], 100, 0, log=True, from_zero=False).ticks("s") == pytest.approx([0.001, 0.01, 0.1, 1])
    assert Axis(0, 6_000_000, 100, 0).ticks("bytes", count=3) == [0, 2**21, 2**22]
    assert axis_for([5.0, 5.0], 100, 0, log=False, from_zero=False).high > 5


def test_a_series_is_named_by_its_labels() -> None:
    assert Query("", "shard {{shard}}, {{ loop }}", False).name_of({"shard": "3", "loop": "fires"}) == "shard 3, fires"


def test_a_variable_that_nobody_gives_is_an_error() -> None:
    with pytest.raises(KeyError, match="__rate_interval"):
        list(dashboards({"job": "shardclock"}))


def test_stacked_series_lie_on_top_of_each_other() -> None:
    drawn = _drawn("timeseries", [_series("a", [1, 1]), _series("b", [2, 2])], stacking={"mode": "normal"})
    tops = {min(y for _, y in _points(polygon)) for polygon in drawn.iter() if polygon.tag.endswith("polygon")}
    assert len(tops) == 2
    floor = max(y for polygon in drawn.iter() if polygon.tag.endswith("polygon") for _, y in _points(polygon))
    low, high = sorted(floor - top for top in tops)
    assert high == pytest.approx(3 * low, rel=0.02)


def test_a_line_has_a_gap_where_there_was_no_data() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (30.0, 1.0), (31.0, 2.0)]
    drawn = _drawn("timeseries", [Series("a", {}, points)])
    assert sum(shape.tag.endswith("polyline") for shape in drawn.iter()) == 2


def _series(name: str, values: list[float]) -> Series:
    return Series(name, {}, [(float(at), value) for at, value in enumerate(values)])


def _drawn(kind: str, series: list[Series], **custom: object) -> ET.Element:
    defaults = {"unit": "short", "min": 0, "custom": custom}
    panel = Panel(
        kind, "title", {}, (), json.loads(json.dumps({"fieldConfig": {"defaults": defaults, "overrides": []}}))
    )
    picture = Picture(400, 200)
    CHARTS[kind](picture, FRAME, panel, series, SPAN)
    return ET.fromstring(str(picture))


def _points(shape: ET.Element) -> list[tuple[float, float]]:
    pairs = (point.split(",") for point in shape.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]
