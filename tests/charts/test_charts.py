"""Test the parts of all pictures: units, axes, gaps, legends; equal values give equal SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Literal

import pytest

from charts.legend import Entry, Legend
from charts.plot import Frame, Plot
from charts.points import split_at_gaps
from charts.scales import Axis
from charts.svg import Picture
from charts.units import format_value

FRAME = Frame(50, 10, 300, 100)


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
    assert format_value(value, unit) == shown


def test_an_axis_places_its_values_and_marks_the_round_values() -> None:
    axis = Axis(0, 104, 100, 0)
    assert [axis.place(value) for value in (-5, 0, 52, 104, 200)] == [100, 100, 50, 0, 0]
    assert axis.ticks("short", count=5) == [0, 20, 40, 60, 80, 100]
    assert Axis(0.001, 3.0, 100, 0, log=True).ticks("s") == pytest.approx([0.001, 0.01, 0.1, 1])
    assert Axis(0, 6_000_000, 100, 0).ticks("bytes", count=3) == [0, 2**21, 2**22]


@pytest.mark.parametrize(
    ("length_s", "count", "last"), [(3, 7, 0), (60, 7, 60), (600, 16, 600), (3_600, 7, 3_600), (1e6, 7, 993_600)]
)
def test_times_are_marked_at_round_seconds_after_the_start(length_s: float, count: int, last: int) -> None:
    ticks = Axis(1_000.5, 1_000.5 + length_s, 0, 100).time_ticks(count)
    assert (ticks[0], ticks[-1]) == (0, last)
    assert len(ticks) <= count + 1 or length_s > 100_000


def test_a_series_is_split_at_missing_points() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (2.4, 1.0), (4.0, 1.0), (30.0, 2.0)]
    assert [len(run) for run in split_at_gaps(points, 1.0)] == [3, 1, 1]
    assert list(split_at_gaps([], 1.0)) == []


def test_a_legend_takes_as_many_rows_as_its_names_need() -> None:
    entries = [Entry(f"a series named {number}", "#000000") for number in range(5)]
    assert Legend([], 300).height == 0
    assert Legend(entries, 2_000).height == Legend(entries[:1], 10).height
    assert Legend(entries, 300).height == 3 * Legend(entries[:1], 300).height
    places = _shapes(_with_legend(Legend(entries, 300)), "text")
    assert all(float(text.attrib["x"]) < 300 for text in places)
    assert len({text.attrib["y"] for text in places}) == 3


@pytest.mark.parametrize(("sample", "shape"), [("box", "rect"), ("line", "polyline"), ("shade", "polygon")])
def test_a_sample_in_a_legend_looks_like_its_series(sample: Literal["box", "line", "shade"], shape: str) -> None:
    picture = _with_legend(Legend([Entry("a", "#123456", sample)], 300))
    assert len([it for it in _shapes(picture, shape) if "#123456" in it.attrib.values()]) == 1


def test_a_window_beyond_the_axis_ends_with_the_axis() -> None:
    picture = Picture(400, 200)
    _plot(picture).window(5, 1_000, color="#000001", opacity=0.5, edge=True)
    (window,) = _shapes(picture, "polygon")
    assert window.attrib["points"] == "200,10 350,10 350,110 200,110"
    (edge,) = _shapes(picture, "line")
    assert edge.attrib["x1"] == "200"


def test_the_same_shapes_give_the_same_text_and_names_are_escaped() -> None:
    def drawn() -> str:
        picture = Picture(400, 200)
        picture.heading(10, "a <title>", "with & without")
        plot = _plot(picture)
        plot.draw_y_grid(plot.y.ticks("short"), str)
        plot.draw_x_grid(plot.x.ticks("short"), str)
        plot.draw_time_axis(5, str)
        plot.picture.text(3, 3, "a")
        plot.line([(1, 1)], color="#000001")
        return str(picture)

    assert drawn() == drawn()
    texts = [element.text for element in ET.fromstring(drawn()).iter() if element.tag.endswith("text")]
    assert {"a <title>", "with & without", "a"} <= set(texts)


def _plot(picture: Picture) -> Plot:
    return Plot(picture, FRAME, FRAME.x_axis(0, 10), Axis(0, 10, FRAME.bottom, FRAME.y))


def _with_legend(legend: Legend) -> Picture:
    picture = Picture(400, 200)
    legend.draw(picture, 0, 0)
    return picture


def _shapes(picture: Picture, name: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(str(picture)).iter() if element.tag.endswith(f"}}{name}")]
