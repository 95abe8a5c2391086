"""What docs/feel.md shows, FEEL does: each row of its tables is evaluated."""

import json
import re
from decimal import Decimal

import pytest

from shardclock_server.bpmn.model.expressions import Unreadable, read_expression
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
    """Return the part of the page below a title."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(*titles: str) -> list[list[str]]:
    """List the cells of all rows of the tables below some titles, without the heads."""
    found = []
    for title in titles:
        for line in section(title).splitlines():
            cells = [cell.strip().replace("\\|", "|") for cell in CELL.split(line)[1:-1]]
            if cells and not cells[0].startswith(("---", "**")):
                found.append(cells)
    return [cells for cells in found if CODE.fullmatch(cells[0]) or CODE.fullmatch(cells[1])]


def code_in(cell: str) -> str:
    """Return what a cell has in backquotes."""
    match = CODE.fullmatch(cell)
    assert match, cell
    return match[1]


def evaluated(text: str) -> FeelValue:
    """Evaluate a text with the variables of the page."""
    variables = {name: from_json(value) for name, value in VARIABLES.items()}
    return compile_expression(text).evaluate(variables, now=NOW)


EXAMPLES = rows("Values", "Operators", "Null", "Functions")


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row[1])
def test_an_example_has_the_value_that_the_page_shows(row: list[str]) -> None:
    ours, shown = evaluated(code_in(row[1])), evaluated(code_in(row[2]))

    assert to_json(ours) == to_json(shown)
    assert kind_of(ours) == kind_of(shown)


def test_the_page_shows_each_function_once_and_no_other() -> None:
    shown = [row for row in rows("Functions") if CODE.fullmatch(row[0])]
    named = [code_in(row[0]) for row in shown]

    assert len(named) == len(set(named))
    assert set(named) == FUNCTION_NAMES
    assert all(name in row[1] for name, row in zip(named, shown, strict=True))


def test_the_page_says_at_which_moment_its_examples_are_evaluated() -> None:
    assert f"at {NOW:%Y-%m-%dT%H:%M:%SZ}" in PAGE
    assert len(EXAMPLES) > 130


@pytest.mark.parametrize("row", rows("What is refused"), ids=lambda row: row[0])
def test_what_the_page_says_is_refused_is_refused_with_its_sentence(row: list[str]) -> None:
    with pytest.raises(Unreadable) as refused:
        read_expression(code_in(row[0]))

    assert row[1] in str(refused.value)


@pytest.mark.parametrize("row", rows("What ends an evaluation"), ids=lambda row: row[0])
def test_what_the_page_says_ends_an_evaluation_ends_it(row: list[str]) -> None:
    with pytest.raises(TooLong) as ended:
        to_json(evaluated(code_in(row[1])))

    assert row[2] in str(ended.value)


def test_the_page_shows_each_function_that_only_other_engines_have() -> None:
    calls = [code_in(row[1]) for row in rows("Where Camunda 8 answers otherwise")]

    assert [name for name in UNSUPPORTED if not any(call.startswith(f"{name}(") for call in calls)] == []


@pytest.mark.parametrize("row", rows("Where Camunda 8 answers otherwise"), ids=lambda row: row[0])
def test_where_camunda_answers_otherwise_we_answer_as_the_page_says(row: list[str]) -> None:
    text = code_in(row[1])
    if row[2].startswith("refused"):
        with pytest.raises(Unreadable):
            read_expression(text)
    else:
        assert row[2].startswith("34 digits")
        assert evaluated(text) == Decimal("1.414213562373095048801688724209698")


def test_names_are_read_as_the_page_says() -> None:
    assert "`` `total price` + 1 ``" in PAGE
    assert evaluated("`total price` + 1") == 100
    assert "`{net price: 5, tax: net price * 0.2}`" in PAGE
    assert to_json(evaluated("{net price: 5, tax: net price * 0.2}")) == {"net price": 5, "tax": 1}
