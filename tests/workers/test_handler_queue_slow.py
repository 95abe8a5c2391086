"""Prove that what would wait for long calls of one worker is left to others."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.handler_queues import Running, running
from tests.support.handlers import Processes, delivery, spec_of
from tests.support.waiting import eventually
from workers import handler_queue, seat


@pytest.fixture
def long_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """Let a call be long after 50 ms."""
    monkeypatch.setattr(seat, "LONG_S", 0.05)
    monkeypatch.setattr(handler_queue, "LONG_S", 0.05)
    return 0.05


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_waits_for_a_long_call_is_given_back_as_it_was(long_s: float, is_async: bool) -> None:
    processes = Processes(gate=asyncio.Event())
    async with running(spec_of(is_async=is_async, concurrency=1), processes) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: [1] in processes.chunks)
        it.queue.add([delivery(key) for key in range(2, 5)])

        await eventually(lambda: bool(it.settled))

        given_back = {one.delivery.timer_key for one in it.settled}
        assert given_back == {1, 2, 3, 4}.difference(*processes.chunks), "an async function has one more in its process"
        assert {(one.ending, one.fails, one.delay_s) for one in it.settled} == {(None, False, None)}
        assert (it.queue.free, it.queue.places) == (0, 0), "they are not claimed again"
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.queue) == 0)
        assert it.queue.places > 0


async def test_where_calls_begin_and_end_nothing_is_given_back(long_s: float) -> None:
    processes = Processes(gate=asyncio.Event())
    async with running(spec_of(is_async=False), processes) as it:
        it.queue.add([delivery(key) for key in range(8)])
        for ended in range(8):
            assert processes.gate is not None
            await asyncio.sleep(long_s / 4)  # not for an event: each call takes a part of that time
            processes.gate.set()
            await settles(it, ended + 1)
            processes.gate.clear()
        await eventually(lambda: len(it.settled) == 8)

    assert {one.fails for one in it.settled} == {False}
    assert all(one.ending is not None for one in it.settled)


async def settles(it: Running, count: int) -> None:
    await eventually(lambda: len(it.settled) >= count)


async def test_behind_long_calls_nothing_is_claimed_and_each_process_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat, "LONG_S", 0.0)  # each call that ends was long
    processes = Processes(gate=asyncio.Event())
    async with running(spec_of(is_async=False, concurrency=2), processes) as it:
        assert processes.gate is not None
        processes.gate.set()
        it.queue.add([delivery(0)])
        await eventually(lambda: len(it.queue) == 0)
        processes.gate.clear()
        it.queue._seats[0].chunk = 1  # as after a long call
        assert it.queue.places == 2, "the second process is worth a start"

        it.queue.add([delivery(1), delivery(2)])
        await eventually(lambda: [1] in processes.chunks and [2] in processes.chunks)
        assert it.queue.places == 0, "what is claimed now would wait"
        processes.gate.set()
        await eventually(lambda: len(it.queue) == 0)


async def test_of_an_async_function_each_worker_has_a_queue_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seat, "LONG_S", 0.0)
    processes = Processes()
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: len(it.queue) == 0)

        assert it.queue.places == 30, "its process begins one as soon as another ends"
