"""Run the DMN TCK's test cases for FEEL; if our answer differs, this file states the reason."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from shardclock_server.feel import FeelValue, compile_expression
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.syntax import FeelType
from shardclock_server.feel.temporal_text import parse_date, parse_date_time, parse_duration, parse_time
from shardclock_server.feel.types import fitted
from tests.support import ROOT

CASES = ROOT.parent / "shared" / "cases" / "feel-cases.csv"
NOW = datetime(2031, 1, 31, 8, tzinfo=UTC)
SHARE_MIN = 0.97
TOLERANCE = Decimal("1e-8")

Row = dict[str, str]

# The cases name types of their models. The file lacks the definitions, so we derive the types from their names.
STRINGS = FeelType("list", item=FeelType("string"))
NUMBERS = FeelType("list", item=FeelType("number"))
RESULT_TYPES = {
    "string": FeelType("string"),
    "number": FeelType("number"),
    "boolean": FeelType("boolean"),
    "tStringList": STRINGS,
    "tNestedList": FeelType("list", item=STRINGS),
    "tNumberList": NUMBERS,
    "tNumList": NUMBERS,
    "ListOfNumbers": NUMBERS,
    "tNameAndAge": FeelType("context", entries=(("name", FeelType("string")), ("age", FeelType("number")))),
}
IN_TEXTS = {
    "tNumberList": "list<number>",
    "tAnyList": "list<Any>",
    "tFooBar": "string",
    "t255": "number",
    "t_context_013": "context<a: string, b: string>",
}
# The results of these decision services have the type string, which the file does not declare.
SERVICE_ROWS = {
    "0082-feel-coercion/decisionService_002/decision_ds_002",
    "0082-feel-coercion/decisionService_002_b/decision_ds_002",
}

# For each row for which our answer differs, the reason.
DIGITS = "Times are compared with all their digits, and not in whole seconds."
LEFT_OUT = "The file leaves out the type that the result does not fit."
DIFFERS = {
    "0068-feel-equality/time_005/time_005": DIGITS,
    "0082-feel-coercion/decision_context_03/decision_context_03": LEFT_OUT,
}


def rows() -> list[Row]:
    """Read all rows; return an empty list if the file is absent."""
    if not CASES.exists():
        return []
    with CASES.open(newline="") as file:
        return list(csv.DictReader(file))


ROWS = rows()
needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"no cases at {CASES}")
# A row may read the result of another decision in the row's model, by the decision's name. Some models share decisions.
BY_DECISION = {row["id"].rpartition("/")[2]: row for row in ROWS}


@needs_cases
def test_the_file_has_all_rows_and_each_listed_difference_names_a_row() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) == 1_544
    assert DIFFERS.keys() <= {row["id"] for row in ROWS}


@needs_cases
def test_nearly_all_rows_of_each_folder_agree() -> None:
    all_of = Counter(folder_of(row["id"]) for row in ROWS)
    differing = Counter(folder_of(row_id) for row_id, reason in DIFFERS.items() if reason != LEFT_OUT)
    assert {folder: count for folder, count in differing.items() if 1 - count / all_of[folder] < SHARE_MIN} == {}
    assert len(DIFFERS) == 2


@pytest.mark.parametrize("folder", sorted({row["id"].split("/")[0] for row in ROWS}))
def test_our_answer_equals_the_answer_of_the_tck(folder: str) -> None:
    wrong = [
        f"{row['id']}: {row['expression']} is {our_answer(row)!r}, and {their_answer(row)!r} is expected"
        for row in ROWS
        if folder_of(row["id"]) == folder and row["id"] not in DIFFERS and not agrees(row)
    ]
    assert wrong == []


@pytest.mark.parametrize("row", [row for row in ROWS if row["id"] in DIFFERS], ids=lambda row: row["id"])
def test_each_listed_difference_differs(row: Row) -> None:
    assert not agrees(row)


def folder_of(row_id: str) -> str:
    return row_id.split("/", maxsplit=1)[0]


def agrees(row: Row) -> bool:
    return same(our_answer(row), their_answer(row))


def our_answer(row: Row) -> FeelValue:
    """Evaluate a row's expression, and convert the result to the type of its decision."""
    text = re.sub(rf"\b({'|'.join(IN_TEXTS)})\b", lambda name: IN_TEXTS[name[1]], row["expression"])
    variables = inputs_of(row)
    expression = compile_expression(text, known_names=variables.keys())
    for name in expression.names - variables.keys():
        if other := BY_DECISION.get(name):
            variables[name] = our_answer(other)
    value = expression.evaluate(variables, now=NOW)
    wanted = FeelType("string") if row["id"] in SERVICE_ROWS else RESULT_TYPES.get(row["result_type"])
    return fitted(value, wanted, Budget(NOW, 1_000)) if wanted else value


def inputs_of(row: Row) -> dict[str, FeelValue]:
    return {name: read(value) for name, value in json.loads(row["inputs"] or "{}").items()}


def their_answer(row: Row) -> FeelValue:
    return read(json.loads(row["expected"] or "null"))


def read(typed: object) -> FeelValue:
    """Read a value with its XML Schema type, or a list or a context of these."""
    if not isinstance(typed, dict):
        return typed
    if not typed.keys() <= {"type", "value"}:
        return {key: read(value) for key, value in typed.items()}
    value = typed.get("value")
    if value is None:
        return None
    return READERS[typed["type"]](value)


READERS: dict[str, Callable[..., FeelValue]] = {
    "list": lambda items: [read(item) for item in items],
    "context": lambda entries: {key: read(item) for key, item in entries.items()},
    "string": str,
    "decimal": Decimal,
    "boolean": "true".__eq__,
    "date": parse_date,
    "time": parse_time,
    "dateTime": parse_date_time,
    "duration": parse_duration,
}


def same(ours: FeelValue, theirs: FeelValue) -> bool:
    """Compare two answers; numbers may differ by the tolerance of the TCK's own runner."""
    if isinstance(theirs, Decimal):
        if not isinstance(ours, int | Decimal) or isinstance(ours, bool):
            return False
        return abs(ours - theirs) < TOLERANCE
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in theirs)
    return type(ours) is type(theirs) and ours == theirs
