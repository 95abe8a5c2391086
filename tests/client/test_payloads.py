"""Test that a handler's payload is parsed by its annotation; an unfit payload fails with the field's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from annotated_types import Gt
from pydantic import BaseModel, ConfigDict, field_validator

from shardclock import Completed, Discard, Discarded, Failed, Handler, Timer, call_plain
from shardclock.testing import call, timer

Declare = Callable[..., Handler]


class Order(BaseModel):
    order: int


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    at: datetime
    parts: tuple[Order, ...] = ()


class Checked(BaseModel):
    order: int

    @field_validator("order")
    @classmethod
    def _is_open(cls, order: int) -> int:
        if order == 13:
            raise Discard("closed")
        return 1 // order


@dataclass
class Row:
    id: int


def test_an_untyped_payload_is_its_parsed_json(declare: Declare) -> None:
    seen: list[Any] = []

    def expire(timer: Timer) -> None:
        seen.append(timer.payload)

    handler = declare(expire)
    for text in (None, "null", "7", '"7"', '{"a": [1, 2.5, null, true]}'):
        assert call_plain(handler, timer(text)) == Completed()

    assert seen == [None, None, 7, "7", {"a": [1, 2.5, None, True]}]


def test_a_strict_model_reads_a_payload_as_json(declare: Declare) -> None:
    seen: list[Strict] = []

    def expire(timer: Timer[Strict]) -> None:
        seen.append(timer.payload)

    at = datetime(2026, 1, 31, 8, tzinfo=UTC)
    payload = Strict(at=at, parts=(Order(order=7),))

    assert call(declare(expire), payload) == Completed()
    assert call_plain(declare(expire), timer('{"at": "2026-01-31T08:00:00Z", "parts": [{"order": 7}]}')) == Completed()
    assert seen == [payload] * 2


def test_parsing_a_payload_changes_only_the_payload(declare: Declare) -> None:
    seen: list[Timer[Any]] = []

    def expire(timer: Timer[int]) -> None:
        seen.append(timer)

    facts = {
        "timer_key": 2, "occurrence": 3, "attempt": 4, "tenant_id": "a", "target": "b", "timer_type": "BOUNDARY",
        "name": "c", "schedule": "d", "target_element_id": "e", "process_instance_key": 5, "element_instance_key": 6,
        "due_date": datetime(2026, 1, 1, tzinfo=UTC), "fired_at": datetime(2026, 1, 2, tzinfo=UTC),
    }  # fmt: skip
    call(declare(expire), 7, **facts)

    assert seen == [timer(7, **facts)]


def test_a_payload_may_have_other_types_than_models(declare: Declare) -> None:
    seen: list[Any] = []

    def row(timer: Timer[Row]) -> None:
        seen.append(timer.payload)

    def maybe(timer: Timer[Order | None]) -> None:
        seen.append(timer.payload)

    def positive(timer: Timer[Annotated[int, Gt(0)]]) -> None:
        seen.append(timer.payload)

    assert call(declare(row), {"id": "7"}) == call(declare(maybe)) == call(declare(positive), 7) == Completed()
    assert seen == [Row(7), None, 7]
    assert isinstance(call(declare(positive), 0), Failed)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (
            {"order": "seven"},
            (
                "the payload does not fit Order: order: Input should be a valid integer, unable to parse string as an"
                " integer"
            ),
        ),
        ({}, "the payload does not fit Order: order: Field required"),
        ([1], "the payload does not fit Order: Input should be an object"),
        (None, "the timer has no payload, and the handler takes one of Order"),
    ],
    ids=str,
)
def test_a_payload_that_does_not_fit_fails_with_the_name_of_its_field(
    declare: Declare, payload: Any, reason: str
) -> None:
    called: list[Timer[Order]] = []

    def expire(timer: Timer[Order]) -> None:
        called.append(timer)

    assert call(declare(expire), payload) == Failed(reason, "payload")
    assert called == []


def test_the_first_three_misfits_are_named_and_the_other_misfits_are_counted(declare: Declare) -> None:
    def expire(timer: Timer[list[Order]]) -> None: ...

    outcome = call(declare(expire), [{"order": 1}, {"order": "secret"}, {}, {}, {}, {}])

    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("the payload does not fit list[Order]: 1.order: Input should be")
    assert outcome.reason.endswith("; 2.order: Field required; 3.order: Field required (and 2 more)")
    assert "secret" not in outcome.reason


def test_an_exception_of_a_validator_counts_as_an_exception_of_the_handler(declare: Declare) -> None:
    def expire(timer: Timer[Checked]) -> None: ...

    failed = call(declare(expire), {"order": 0})

    assert isinstance(failed, Failed)
    assert (failed.reason, failed.kind) == ("ZeroDivisionError: integer division or modulo by zero", "error")
    assert call(declare(expire), {"order": 13}) == Discarded("closed")


@pytest.mark.parametrize("text", ["{", "1" * 5_000, "[" * 100_000], ids=["cut", "long", "deep"])
def test_a_payload_that_python_can_not_parse_is_a_failure(declare: Declare, text: str) -> None:
    def expire(timer: Timer) -> None: ...

    outcome = call_plain(declare(expire), timer(text))

    assert isinstance(outcome, Failed)
    assert outcome.kind == "payload"
    assert outcome.reason.startswith("the payload can't be read: ")
    assert len(outcome.reason) <= 300
