"""Test the outcomes of a batch: one outcome for all timers, or with `Partly` one for each timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock import Completed, Discard, Discarded, Failed, Handler, Outcome, Partly, RetryIn, RetryLater, Timer
from shardclock.testing import call, call_batch

Declare = Callable[..., Handler]


class Order(BaseModel):
    order: int


def ends(declare: Declare, act: Callable[[], Any]) -> list[Outcome]:
    """Run the same code in a plain and an async handler for three timers, and compare the outcomes."""

    def plain(timers: list[Timer]) -> Any:
        return act()

    async def asynchronous(timers: list[Timer]) -> Any:
        return act()

    one, other = (call_batch(declare(function, batch=9), [None] * 3) for function in (plain, asynchronous))
    if not any(isinstance(outcome, Failed) for outcome in one):
        assert one == other
    return one


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_a_batch_that_returns_has_completed(declare: Declare) -> None:
    assert ends(declare, lambda: None) == [Completed()] * 3


def test_a_result_of_a_whole_batch_is_dropped_with_a_note(declare: Declare) -> None:
    note = "the result of a batch is not recorded; raise shardclock.Partly for single timers"
    assert ends(declare, lambda: [2]) == [Completed(note=note)] * 3


def test_an_exception_of_a_batch_counts_for_each_timer(declare: Declare) -> None:
    assert ends(declare, raising(Discard("closed"))) == [Discarded("closed")] * 3
    assert ends(declare, raising(RetryIn("PT5S", "busy"))) == [RetryLater(5.0, "busy")] * 3
    outcomes = ends(declare, raising(KeyError("a")))
    assert [outcome.reason for outcome in outcomes if isinstance(outcome, Failed)] == ["KeyError: 'a'"] * 3


def test_partly_names_the_timers_that_were_not_handled(declare: Declare) -> None:
    outcomes = ends(declare, raising(Partly({1: Discard("paid"), 3: ValueError("no")})))

    assert outcomes[:2] == [Discarded("paid"), Completed()]
    assert isinstance(outcomes[2], Failed)
    assert (outcomes[2].reason, outcomes[2].kind) == ("ValueError: no", "error")


def test_partly_accepts_the_results_of_asyncio_gather(declare: Declare) -> None:
    async def send(timer: Timer) -> int:
        if timer.payload == "bad":
            raise RetryIn("PT1M", "busy")
        return 7

    async def sends(timers: list[Timer]) -> None:
        results = await asyncio.gather(*map(send, timers), return_exceptions=True)
        raise Partly({timer.timer_key: result for timer, result in zip(timers, results, strict=True)})

    outcomes = call_batch(declare(sends, batch=9), ["good", "bad", None])

    assert outcomes == [Completed(7), RetryLater(60.0, "busy"), Completed(7)]


def test_partly_with_a_timer_outside_the_batch_fails_the_batch(declare: Declare) -> None:
    outcomes = ends(declare, raising(Partly({1: None, 8: None, 7: None})))

    assert [outcome.reason for outcome in outcomes if isinstance(outcome, Failed)] == [
        "ValueError: Partly names 7, which is no timer of this batch"
    ] * 3


@pytest.mark.parametrize("named", [{"1": None}, {True: None}], ids=repr)
def test_partly_without_integer_keys_is_refused(named: Mapping[Any, object]) -> None:
    with pytest.raises(TypeError, match=r"^Partly takes a dict of timer_key: exception, not \{"):
        Partly(named)


def test_a_payload_that_does_not_fit_fails_without_the_other_payloads(declare: Declare) -> None:
    seen: list[int] = []

    def aggregate(timers: list[Timer[Order]]) -> None:
        seen.extend(timer.payload.order for timer in timers)
        timers.clear()

    outcomes = call_batch(declare(aggregate, batch=9), [{"order": 1}, {"order": "two"}, {"order": 3}])

    assert [type(outcome) for outcome in outcomes] == [Completed, Failed, Completed]
    assert isinstance(outcomes[1], Failed)
    assert outcomes[1].kind == "payload"
    assert seen == [1, 3]


def test_a_batch_without_a_fitting_payload_is_not_called(declare: Declare) -> None:
    called: list[Any] = []

    def plain(timers: list[Timer[Order]]) -> None:
        called.append(timers)

    async def asynchronous(timers: list[Timer[Order]]) -> None:
        called.append(timers)

    for function in (plain, asynchronous):
        (outcome,) = call_batch(declare(function, batch=9), [{}])
        assert isinstance(outcome, Failed)
    assert called == []


def test_if_a_batch_exceeds_its_timeout_all_its_timers_fail(declare: Declare) -> None:
    async def waits(timers: list[Timer]) -> None:
        await asyncio.Event().wait()

    outcomes = call_batch(declare(waits, batch=9, timeout="PT0.02S"), [1, 2])

    assert [outcome.kind for outcome in outcomes if isinstance(outcome, Failed)] == ["timeout"] * 2


def test_a_batch_handler_gets_a_single_timer_as_a_batch(declare: Declare) -> None:
    def aggregate(timers: list[Timer]) -> None:
        assert [timer.payload for timer in timers] == [7]

    assert call(declare(aggregate, batch=9), 7) == Completed()
