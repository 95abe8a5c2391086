"""Test the calls of an async handler for one message: their tasks, their order, and their context variables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from shardclock import Completed, Handler, Outcome, Timer
from shardclock.executor.concurrent_calls import ConcurrentCalls
from shardclock.testing import timer

Declare = Callable[..., Handler]
IN_TIME_S = 60.0


async def outcomes_of(handler: Handler, count: int, *, calls_max: int = 100) -> list[Outcome]:
    timers = [timer(timer_key=key) for key in range(count)]
    calls = ConcurrentCalls(handler, timers, room=asyncio.Semaphore(calls_max), begins_s=IN_TIME_S)
    async with asyncio.timeout(10):
        return await calls.outcomes(calls_max)


async def test_calls_that_never_wait_are_made_by_one_task(declare: Declare) -> None:
    tasks: set[Any] = set()

    async def notes(_: Timer) -> None:
        tasks.add(asyncio.current_task())

    assert await outcomes_of(declare(notes), 50) == [Completed()] * 50
    assert len(tasks) == 1


async def test_calls_that_wait_run_concurrently(declare: Declare) -> None:
    all_called = asyncio.Barrier(5)

    async def waits(_: Timer) -> None:
        await all_called.wait()

    assert await outcomes_of(declare(waits), 5, calls_max=5) == [Completed()] * 5


async def test_the_outcomes_have_the_order_of_the_timers(declare: Declare) -> None:
    first_may_end = asyncio.Event()

    async def ends_last(it: Timer) -> int:
        if it.timer_key:
            first_may_end.set()
        else:
            await first_may_end.wait()
        return it.timer_key

    assert await outcomes_of(declare(ends_last), 4, calls_max=2) == [Completed(key) for key in range(4)]


async def test_a_call_does_not_see_the_context_variables_of_another_call(declare: Declare) -> None:
    order: ContextVar[int | None] = ContextVar("order", default=None)

    async def sets(it: Timer) -> int | None:
        before = order.get()
        order.set(it.timer_key)
        return before

    assert await outcomes_of(declare(sets), 4) == [Completed()] * 4


async def test_a_call_after_a_swallowed_cancellation_has_another_task(declare: Declare) -> None:
    counts: list[int] = []

    async def swallows(_: Timer) -> None:
        task = asyncio.current_task()
        assert task is not None
        counts.append(task.cancelling())
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return

    assert await outcomes_of(declare(swallows), 3) == [Completed()] * 3
    assert counts == [0, 0, 0]
