"""Evaluate each row of the tables in docs/feel.md."""

import json
import re
from decimal import Decimal

import pytest

from shardclock_server.bpmn.model.expressions import InvalidValue, read_expression
from shardclock_server.feel import FeelValue, TooLong, compile_expression, from_json, to_json
from shardclock_server.feel.functions import FUNCTION_NAMES
from shardclock_server.feel.functions.unsupported import UNSUPPORTED
from shardclock_server.feel.values import kind_of
from tests.support import ROOT
from tests.support.feel import NOW

PAGE = (ROOT / "docs" / "feel.md").read_text(encoding="utf-8")
VARIABLES = json.loads(re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0])
CELL = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`(.+)`")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(*titles: str) -> list[list[str]]:
    """List the cells of all rows of the tables in these sections, without the header rows."""
    found = []
    for title in titles:
        for line in section(title).splitlines():
            cells = [cell.strip().replace("\\|", "|") for cell in CELL.split(line)[1:-1]]
            if cells and not cells[0].startswith(("---", "**")):
                found.append(cells)
    return [cells for cells in found if CODE.fullmatch(cells[0]) or CODE.fullmatch(cells[1])]


def code_in(cell: str) -> str:
    match = CODE.fullmatch(cell)
    assert match, cell
    return match[1]


def evaluated(text: str) -> FeelValue:
    variables = {name: from_json(value) for name, value in VARIABLES.items()}
    return compile_expression(text).evaluate(variables, now=NOW)


EXAMPLES = rows("Values", "Operators", "Null", "Functions")


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row[1])
def test_an_example_has_the_value_that_the_page_shows(row: list[str]) -> None:
    ours, shown = evaluated(code_in(row[1])), evaluated(code_in(row[2]))

    assert to_json(ours) == to_json(shown)
    assert kind_of(ours) == kind_of(shown)


def test_the_page_shows_exactly_the_functions_each_once() -> None:
    shown = [row for row in rows("Functions") if CODE.fullmatch(row[0])]
    named = [code_in(row[0]) for row in shown]

    assert len(named) == len(set(named))
    assert set(named) == FUNCTION_NAMES
    assert all(name in row[1] for name, row in zip(named, shown, strict=True))


def test_the_page_names_the_moment_of_its_examples() -> None:
    assert f"at {NOW:%Y-%m-%dT%H:%M:%SZ}" in PAGE
    assert len(EXAMPLES) > 130


@pytest.mark.parametrize("row", rows("What is refused"), ids=lambda row: row[0])
def test_each_listed_refusal_has_the_sentence_on_the_page(row: list[str]) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_expression(code_in(row[0]))

    assert row[1] in str(refused.value)


@pytest.mark.parametrize("row", rows("What ends an evaluation"), ids=lambda row: row[0])
def test_each_listed_bound_ends_an_evaluation(row: list[str]) -> None:
    with pytest.raises(TooLong) as ended:
        to_json(evaluated(code_in(row[1])))

    assert row[2] in str(ended.value)


def test_the_page_shows_each_unsupported_function() -> None:
    calls = [code_in(row[1]) for row in rows("Where Camunda 8 answers otherwise")]

    assert [name for name in UNSUPPORTED if not any(call.startswith(f"{name}(") for call in calls)] == []


@pytest.mark.parametrize("row", rows("Where Camunda 8 answers otherwise"), ids=lambda row: row[0])
def test_each_listed_difference_from_camunda_is_real(row: list[str]) -> None:
    text = code_in(row[1])
    if row[2].startswith("refused"):
        with pytest.raises(InvalidValue):
            read_expression(text)
    else:
        assert row[2].startswith("34 digits")
        assert evaluated(text) == Decimal("1.414213562373095048801688724209698")


def test_names_with_spaces_work_as_on_the_page() -> None:
    assert "`` `total price` + 1 ``" in PAGE
    assert evaluated("`total price` + 1") == 100
    assert "`{net price: 5, tax: net price * 0.2}`" in PAGE
    assert to_json(evaluated("{net price: 5, tax: net price * 0.2}")) == {"net price": 5, "tax": 1}
