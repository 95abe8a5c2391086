"""Test that each way in which a handler can end has one outcome, and that no exception of a handler leaves the call."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock import Completed, Discard, Discarded, Failed, Handler, Outcome, RetryIn, RetryLater, Timer, call_async
from shardclock.testing import call

Declare = Callable[..., Handler]


class Paid(BaseModel):
    order: int
    at: datetime


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def ends(declare: Declare, act: Callable[[], Any]) -> Outcome:
    """Run the same code in a plain and an async handler, and compare the outcomes."""

    def plain(timer: Timer) -> Any:
        return act()

    async def asynchronous(timer: Timer) -> Any:
        return act()

    one, other = call(declare(plain)), call(declare(asynchronous))
    if not isinstance(one, Failed):
        assert one == other
    return one


def failing(declare: Declare, error: BaseException) -> Failed:
    def act() -> None:
        raise error

    outcome = ends(declare, act)
    assert isinstance(outcome, Failed)
    return outcome


def test_a_handler_that_returns_has_completed(declare: Declare) -> None:
    assert ends(declare, lambda: None) == Completed()


@pytest.mark.parametrize(
    ("result", "recorded"),
    [
        *((7, 7), ("ä", "ä"), (False, False), ([], []), ({"sent": 3, "to": ["a"]}, {"sent": 3, "to": ["a"]})),
        *(((1, 2), [1, 2]), ({1: 2}, {"1": 2}), ("x" * 16_382, "x" * 16_382)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_result_is_recorded_in_its_json_form(declare: Declare, result: Any, recorded: Any) -> None:
    assert ends(declare, lambda: result) == Completed(recorded)


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 7
    for _ in range(levels):
        value = [value]
    return value


def test_a_result_may_have_a_hundred_levels_and_be_a_pydantic_model(declare: Declare) -> None:
    assert ends(declare, lambda: deep(100)) == Completed(deep(100))
    paid = Paid(order=7, at=datetime(2026, 1, 31, tzinfo=UTC))
    recorded = {"order": 7, "at": "2026-01-31T00:00:00Z"}

    assert ends(declare, lambda: paid) == Completed(recorded)
    assert ends(declare, lambda: {"all": [paid]}) == Completed({"all": [recorded]})


@pytest.mark.parametrize(
    ("result", "note"),
    [
        ({1, 2}, "the result {1, 2} is not recorded: it has no form in JSON; give objects, arrays, text, finite"),
        (timedelta(1), "is not recorded: it has no form in JSON"),
        (float("nan"), "the result nan is not recorded: it has no form in JSON"),
        ("\ud800", "is not recorded: it has no form in JSON"),
        (
            "a\0b",
            r"the result 'a\x00b' is not recorded: it contains a NUL character, which Postgres can't store; leave",
        ),
        ({"a": [{"\0": 1}]}, "is not recorded: it contains a NUL character"),
        (
            "x" * 16_383,
            "… is not recorded: it has 16,385 bytes as JSON, more than 16,384; store it elsewhere, and give its key",
        ),
        (deep(101), "is not recorded: it is nested deeper than 100 levels; flatten it"),
        (deep(5_000), "is not recorded: it "),
        (10**5_000, "the result an integer of over 50 digits is not recorded: it has no form in JSON"),
        ("x" * 1_000_001, "the result <class 'str'> is not recorded: it has over 1,000,000 characters or"),
        ({"rows": [b"x" * 1_000_001]}, "it has over 1,000,000 characters or parts"),
        ([0] * 1_000_001, "it has over 1,000,000 characters or parts"),
        (itself(), "it has over 1,000,000 characters or parts"),
    ],
    ids=lambda value: str(type(value)),
)
def test_a_result_that_can_not_be_recorded_is_dropped_with_a_note(declare: Declare, result: Any, note: str) -> None:
    outcome = ends(declare, lambda: result)

    assert isinstance(outcome, Completed)
    assert outcome.result is None
    assert note in (outcome.note or "")
    assert len(outcome.note or "") < 200


def test_a_large_result_is_not_copied(declare: Declare) -> None:
    rows = {"rows": ["x" * 50_000_000]}
    tracemalloc.start()
    try:
        outcome = ends(declare, lambda: rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert isinstance(outcome, Completed)
    assert peak < 5_000_000


def test_a_discard_ends_the_retries_and_needs_no_reason(declare: Declare) -> None:
    for error, outcome in (
        (Discard("paid\n already\0"), Discarded("paid already\N{REPLACEMENT CHARACTER}")),
        (Discard(), Discarded("the handler discarded it")),
    ):
        assert ends(declare, raising(error)) == outcome


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_a_retry_in_sets_the_pause_and_needs_no_reason(declare: Declare) -> None:
    asked_again = RetryLater(0.0, "the handler asked for another attempt")
    assert ends(declare, raising(RetryIn(timedelta(minutes=5), "closed"))) == RetryLater(300.0, "closed")
    assert ends(declare, raising(RetryIn("PT0S"))) == asked_again


@pytest.mark.parametrize(
    ("delay", "reason"),
    [
        (
            "5 minutes",
            "ValueError: '5 minutes' is not an ISO 8601 duration; write one such as PT30S, P1DT12H or PT0.5S",
        ),
        ("P366D", "ValueError: RetryIn 'P366D' is refused: it must be a duration up to P365D"),
    ],
)
def test_a_retry_in_with_an_invalid_duration_is_a_failed_attempt(declare: Declare, delay: str, reason: str) -> None:
    def act() -> None:
        raise RetryIn(delay)

    outcome = ends(declare, act)

    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.kind) == (reason, "error")


def test_an_exception_is_a_failed_attempt_with_its_place(declare: Declare) -> None:
    outcome = failing(declare, KeyError("order"))

    assert (outcome.reason, outcome.kind) == ("KeyError: 'order'", "error")
    assert outcome.traceback.startswith("Traceback (most recent call last):\n")
    assert outcome.traceback.endswith("KeyError: 'order'\n")
    assert "in act" in outcome.traceback
    assert "calling.py" not in outcome.traceback


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), TimeoutError()]
)
def test_an_exception_that_usually_ends_the_process_is_a_failed_attempt(declare: Declare, error: BaseException) -> None:
    outcome = failing(declare, error)

    assert outcome.kind == "error"
    assert outcome.reason.startswith(type(error).__name__)


def test_an_exception_without_a_text_is_reported_by_its_type(declare: Declare) -> None:
    assert failing(declare, ValueError()).reason == "ValueError"
    outcome = failing(declare, Unspeakable())
    assert outcome.reason == "Unspeakable, whose text can't be shown, because its method __str__ raised ValueError"
    assert "Unspeakable" in outcome.traceback


def test_an_exception_with_a_huge_text_is_reported_in_one_line(declare: Declare) -> None:
    outcome = failing(declare, ValueError("x\n\0\ud800" * 300_000))

    assert len(outcome.reason) == 300
    assert outcome.reason.startswith("ValueError: x ")
    assert outcome.reason.endswith("…")
    assert outcome.reason.isprintable()
    assert len(outcome.traceback) <= 4_000
    assert "\0" not in outcome.traceback
    outcome.traceback.encode()
    assert "in act" in outcome.traceback


def test_a_recursion_is_reported_with_its_innermost_frames(declare: Declare) -> None:
    def dig(depth: int) -> int:
        return dig(depth + 1) + 1

    outcome = ends(declare, lambda: dig(0))

    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("RecursionError: maximum recursion depth exceeded")
    assert len(outcome.traceback) <= 4_000
    assert "in dig" in outcome.traceback


def test_a_long_traceback_keeps_its_innermost_frames(declare: Declare) -> None:
    names = ["innermost", *(f"at_{depth}_{'x' * 200}" for depth in range(30))]
    functions: dict[str, Any] = {}
    exec("def innermost(): 1 / 0", functions)
    for inner, outer in itertools.pairwise(names):
        exec(f"def {outer}(): {inner}()", functions)

    outcome = ends(declare, functions[names[-1]])

    assert isinstance(outcome, Failed)
    assert len(outcome.traceback) == 4_000
    assert outcome.traceback.endswith("in innermost\nZeroDivisionError: division by zero\n")


def test_an_exception_group_is_reported_with_its_first_exceptions(declare: Declare) -> None:
    inner = ExceptionGroup("inner", [KeyError("a"), ExceptionGroup("deep", [ValueError("b")])])
    group = BaseExceptionGroup("outer", [inner, SystemExit(3), OSError("c")])

    reason = failing(declare, group).reason

    assert reason == ("BaseExceptionGroup: outer (3 sub-exceptions): KeyError: 'a'; ValueError: b; SystemExit: 3")


def test_a_single_exception_of_a_task_group_is_reported_without_the_group(declare: Declare) -> None:
    async def discards() -> None:
        raise Discard("paid")

    async def expire(timer: Timer) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(discards())

    assert call(declare(expire)) == Discarded("paid")


def test_a_plain_handler_that_returns_a_coroutine_has_failed(declare: Declare) -> None:
    async def work() -> None: ...

    def expire(timer: Timer) -> Any:
        return work()

    outcome = call(declare(expire))

    assert isinstance(outcome, Failed)
    assert (
        outcome.reason == "TypeError: the function returned a coroutine that is not awaited; declare it with async def"
    )


async def test_awaiting_a_cancelled_future_is_a_failed_attempt(declare: Declare) -> None:
    async def expire(timer: Timer) -> None:
        lost = asyncio.get_running_loop().create_future()
        lost.cancel()
        await lost

    from shardclock.testing import timer

    outcome = await call_async(declare(expire), timer())

    assert isinstance(outcome, Failed)
    assert outcome.reason == "CancelledError"
