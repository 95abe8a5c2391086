"""Test which results of a handler become variables of its service task, and which results fail the attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock import BpmnError, Completed, Discarded, Failed, Handler, Outcome, Partly, Timer
from shardclock.testing import call, call_batch

Declare = Callable[..., Handler]
TASK = "SERVICE_TASK"


class Receipt(BaseModel):
    amount: Decimal


class Rows(BaseModel):
    rows: object


def returning(declare: Declare, result: Any) -> Outcome:
    """Return a value from a plain and from an async handler for a service task, and compare the outcomes."""

    def plain(_: Timer) -> Any:
        return result

    async def asynchronous(_: Timer) -> Any:
        return result

    one, other = (call(declare(it), timer_type=TASK) for it in (plain, asynchronous))
    assert one == other
    return one


def test_a_service_task_may_return_an_object_or_none(declare: Declare) -> None:
    assert returning(declare, None) == Completed()
    assert returning(declare, {"receipt": "R-42", 1: (2,)}) == Completed({"receipt": "R-42", "1": [2]})
    assert returning(declare, Receipt(amount=Decimal("1.50"))) == Completed({"amount": "1.50"})


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (
            {"amount": Decimal(1)},
            "it has a value of type Decimal at 'amount', which JSON can't express; give a text or a number",
        ),
        (
            {"paid": [{"at": datetime(2026, 1, 1, tzinfo=UTC)}]},
            "it has a value of type datetime at 'paid[0].at', which",
        ),
        (
            {"share": float("nan")},
            "it has nan at 'share', which JSON can't express; give a finite number, a text or None",
        ),
        ({"tags": {1}}, "it has a value of type set at 'tags', which JSON can't express; give a list"),
        ({(1, 2): 3}, "it has a key of type tuple, which JSON can't express; give names that are texts"),
        ({"of": Rows(rows=object())}, "it has a value of type Rows at 'of', which JSON can't express"),
        ({"name": "\ud800"}, "it has a text with half of a surrogate pair at 'name', which JSON can't express"),
        ({"name": "\0"}, "it contains a NUL character, which Postgres can't store; leave it out"),
        (
            {"rows": "x" * 20_000},
            "it has 20,011 bytes as JSON, more than 16,384; store it elsewhere, and give its key",
        ),
        ({"rows": "x" * 1_000_001}, "it has over 1,000,000 characters or parts"),
        ([1, 2], "it is of type list, and only an object has names; give a dict, a pydantic model or None"),
        ("R-42", "it is of type str, and only an object has names"),
        (42, "it is of type int, and only an object has names"),
        (Decimal(1), "it is of type Decimal, and only an object has names"),
    ],
    ids=lambda value: str(type(value)),
)
def test_a_result_that_can_not_become_variables_fails_the_attempt(declare: Declare, result: Any, why: str) -> None:
    outcome = returning(declare, result)

    assert isinstance(outcome, Failed)
    assert outcome.kind == "error"
    assert outcome.reason.startswith(f"the result can't become variables: {why}")
    assert len(outcome.reason) < 300


def test_the_same_result_of_another_timer_is_not_a_failure(declare: Declare) -> None:
    def act(_: Timer) -> Any:
        return {"amount": Decimal(1)}

    assert isinstance(call(declare(act)), Completed)


def test_each_result_of_a_batch_becomes_variables_and_a_common_result_fails(declare: Declare) -> None:
    def each(_: list[Timer]) -> Any:
        raise Partly({1: {"n": 1}, 2: [2]})

    def all_(_: list[Timer]) -> Any:
        return [{"n": 1}, {"n": 2}]

    first, second, third = call_batch(declare(each, batch=5), [None] * 3, timer_type=TASK)
    assert (first, third) == (Completed({"n": 1}), Completed())
    assert isinstance(second, Failed)
    assert "it is of type list" in second.reason

    for outcome in call_batch(declare(all_, batch=5), [None] * 2, timer_type=TASK):
        assert outcome == Failed(
            "the result of a batch can't become variables; raise shardclock.Partly with an object for each timer"
        )


# The variables of an error


def throwing(declare: Declare, variables: Any) -> Outcome:
    async def handler(_: Timer) -> None:
        raise BpmnError("E1", "no money", variables)

    return call(declare(handler), timer_type=TASK)


def test_the_code_of_a_bpmn_error_is_plain_text_even_if_it_is_an_enum(declare: Declare) -> None:
    class Code(StrEnum):
        NO_STOCK = "no stock"

    async def handler(_: Timer) -> None:
        raise BpmnError(Code.NO_STOCK)

    outcome = call(declare(handler), timer_type=TASK)

    assert isinstance(outcome, Discarded)
    assert (outcome.code, type(outcome.code)) == ("no stock", str)


def test_the_variables_of_a_bpmn_error_are_kept_in_their_json_form(declare: Declare) -> None:
    assert throwing(declare, None) == Discarded("no money", "E1", None)
    assert throwing(declare, {"missing": (12,)}) == Discarded("no money", "E1", {"missing": [12]})
    assert throwing(declare, Receipt(amount=Decimal("1.50"))) == Discarded("no money", "E1", {"amount": "1.50"})


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"missing": Decimal(12)}, "has a value of type Decimal at 'missing', which JSON can't express"),
        ([12], "is of type list, and only an object has names; give a dict, a pydantic model or None"),
        ({"text": "x" * 20_000}, "has 20,011 bytes as JSON, more than 16,384"),
    ],
)
def test_variables_that_can_not_be_recorded_fail_at_the_raise_statement(
    declare: Declare, variables: Any, why: str
) -> None:
    outcome = throwing(declare, variables)

    assert isinstance(outcome, Failed)
    assert f"the variables of BpmnError 'E1' can't be recorded: the value {why}" in outcome.reason
    assert "raise BpmnError" in outcome.traceback
