"""Test that an async handler is cancelled at its timeout, and that the caller's own cancellation is passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from shardclock import Completed, Discard, Discarded, Failed, Handler, Outcome, Timer, call_async
from shardclock.testing import timer

Declare = Callable[..., Handler]
BOUND_S = 10


async def call_bounded(handler: Handler) -> Outcome:
    """Call a handler in a separate task, so that a test of an endless handler ends."""
    task = asyncio.create_task(call_async(handler, timer()))
    await asyncio.wait([task], timeout=BOUND_S)
    assert task.done(), "it never ended"
    assert task.cancelling() == 0
    return task.result()


async def test_a_handler_that_exceeds_its_timeout_is_cancelled_and_the_current_line_is_reported(
    declare: Declare,
) -> None:
    ended: list[str] = []

    async def waits_for_ever(timer: Timer) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    outcome = await call_bounded(declare(waits_for_ever, timeout="PT0.02S"))

    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.kind) == ("the call took longer than its timeout, 0.02 s", "timeout")
    assert "asyncio.Event().wait()" in outcome.traceback
    assert "TookTooLong" not in outcome.traceback
    assert "calling.py" not in outcome.traceback
    assert ended == ["cleaned up"]


async def test_a_handler_that_catches_its_cancellation_has_exceeded_its_timeout(declare: Declare) -> None:
    async def swallows(timer: Timer) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def says_other(timer: Timer) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Discard("gave up") from None

    for function in (swallows, says_other):
        outcome = await call_bounded(declare(function, timeout="PT0.02S"))
        assert isinstance(outcome, Failed)
        assert outcome.kind == "timeout"


async def test_each_of_many_calls_has_its_own_timeout(declare: Declare) -> None:
    # Given calls that started one after another; every second call ends immediately
    loop, begun_s, ended_s = asyncio.get_running_loop(), dict[int, float](), dict[int, float]()

    async def waits(timer: Timer) -> None:
        begun_s[timer.timer_key] = loop.time()
        if timer.timer_key % 2:
            await asyncio.Event().wait()

    handler = declare(waits, timeout="PT0.05S")

    async def one(key: int) -> object:
        await asyncio.sleep(key / 1_000)
        outcome = await call_async(handler, timer(timer_key=key))
        ended_s[key] = loop.time()
        return outcome.kind if isinstance(outcome, Failed) else outcome

    # When all calls have ended
    async with asyncio.timeout(BOUND_S):
        outcomes = await asyncio.gather(*(one(key) for key in range(30)))

    # Then no waiting call ended before its timeout
    assert outcomes == [Completed(), "timeout"] * 15
    assert all(ended_s[key] - begun_s[key] >= 0.05 for key in range(1, 30, 2))


async def test_calls_with_the_same_timeout_share_one_alarm(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, alarms = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def recorded(at_s: float, *rest: Any, **also: Any) -> asyncio.TimerHandle:
        alarms.append(at_s)
        return call_at(at_s, *rest, **also)

    monkeypatch.setattr(loop, "call_at", recorded)

    async def expire(timer: Timer) -> None: ...

    handler = declare(expire, timeout="PT123S")
    for _ in range(100):
        assert await call_async(handler, timer()) == Completed()

    assert len(alarms) == 1


async def test_a_cancellation_by_the_caller_is_passed_on(declare: Declare) -> None:
    begun = asyncio.Event()

    async def waits(timer: Timer) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(call_async(declare(waits), timer()))
    await begun.wait()
    task.cancel()

    await asyncio.wait([task], timeout=BOUND_S)
    assert task.cancelled()


async def test_a_cancellation_by_the_caller_is_passed_on_after_the_timeout(declare: Declare) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def is_slow_to_end(timer: Timer) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(call_async(declare(is_slow_to_end, timeout="PT0.02S"), timer()))
    async with asyncio.timeout(BOUND_S):
        await begun.wait()
        await cancelled.wait()
    task.cancel()

    await asyncio.wait([task], timeout=BOUND_S)
    assert task.cancelled()


async def test_a_closed_handler_ends_immediately(declare: Declare) -> None:
    ended: list[str] = []

    async def waits(timer: Timer) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    calling = call_async(declare(waits), timer())
    calling.send(None)
    calling.close()

    assert ended == ["closed"]


def test_each_event_loop_has_its_own_deadlines(declare: Declare) -> None:
    async def waits(timer: Timer) -> None:
        await asyncio.Event().wait()

    handler = declare(waits, timeout="PT0.02S")
    for _ in range(2):
        outcome = asyncio.run(call_bounded(handler))
        assert isinstance(outcome, Failed)
        assert outcome.kind == "timeout"


async def test_a_discard_within_the_timeout_is_a_discard(declare: Declare) -> None:
    async def discards(timer: Timer) -> None:
        await asyncio.sleep(0)
        raise Discard("paid")

    assert await call_async(declare(discards, timeout="PT0.02S"), timer()) == Discarded("paid")
