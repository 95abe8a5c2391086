"""Test that the drawing of a model is read, and that an unusable drawing is ignored."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.drawing import FlowLine, Shape, read_drawing
from shardclock_server.bpmn.model import InvalidModel
from tests.support.bpmn import model
from tests.support.drawn_models import drawn_model


def test_each_shape_of_a_drawing_has_a_position_a_kind_and_a_trigger() -> None:
    drawing = read_drawing(drawn_model())

    assert drawing is not None
    shapes = {shape.element_id: shape for shape in drawing.shapes}
    assert shapes.keys() == {"s", "u", "too-late", "g", "e", "late"}, "a shape of no element is left out"
    assert shapes["u"] == Shape("u", "userTask", "", "Approve the order", 160, 60, 100, 80, True, False)
    assert shapes["too-late"] == Shape("too-late", "boundaryEvent", "timer", "", 200, 122, 36, 36, False, False)
    assert drawing.flows == [FlowLine("s-u", "sequenceFlow", "", [(136, 100), (160, 100)])]
    assert (drawing.left, drawing.top, drawing.width, drawing.height) == (100, 60, 348, 178)


@pytest.mark.parametrize("x", ["", "left", "nan", "1e9"])
def test_a_drawing_with_an_invalid_coordinate_is_ignored(x: str) -> None:
    assert read_drawing(drawn_model(x=x)) is None


def test_a_drawing_with_a_shape_without_an_area_is_ignored() -> None:
    assert read_drawing(drawn_model(width=0)) is None


def test_a_model_without_a_drawing_is_accepted_and_a_text_that_is_not_a_model_is_refused() -> None:
    assert read_drawing(model('<startEvent id="s"/>')) is None
    with pytest.raises(InvalidModel, match="not XML"):
        read_drawing(b"<open")
