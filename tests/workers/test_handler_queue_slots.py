"""The processes of a plain handler share its calls, so that no call waits while a process is idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shardclock.backoff import Backoff
from shardclock_server.workers import handler_slot
from shardclock_server.workers.handler import HandlerSpec
from tests.support.handler_queues import Running, dies_of, running
from tests.support.handlers import FakeProcess, Processes, delivery, spec_of
from tests.support.waiting import eventually

QUICK_CALLS = 200  # after this number of calls a process gets large chunks


@asynccontextmanager
async def two_quick_processes(processes: Processes) -> AsyncIterator[Running]:
    """Run a queue with two running processes that get large chunks."""
    async with running(spec_of(is_async=False, concurrency=2), processes) as it:
        for first in range(1_000, 1_000 + QUICK_CALLS, 10):
            it.queue.add([delivery(key) for key in range(first, first + 10)])
            await eventually(lambda: len(it.queue) == 0)
        assert len(processes.started) == 2
        it.settled.clear()
        yield it


async def test_a_delivery_goes_to_the_process_with_the_fewest_calls() -> None:
    processes = Processes()
    async with two_quick_processes(processes) as it:
        for process in processes.started:
            process.gate = asyncio.Event()
        it.queue.add([delivery(1)])
        await eventually(lambda: [1] in processes.chunks)
        it.queue.add([delivery(2)])
        await eventually(lambda: [2] in processes.chunks)

        assert [process.chunks[-1] for process in processes.started] in ([[1], [2]], [[2], [1]])
        for process in processes.started:
            assert process.gate is not None
            process.gate.set()


async def test_suspects_get_a_process_of_their_own_while_another_makes_a_long_call() -> None:
    processes = Processes(dies_of(2))
    async with two_quick_processes(processes) as it:
        busy = processes.started[1]
        busy.gate = asyncio.Event()
        processes.started[0].gate = asyncio.Event()
        it.queue.add([delivery(1)])
        await eventually(lambda: [1] in processes.chunks)
        it.queue.add([delivery(2), delivery(3)])
        await eventually(lambda: [2, 3] in processes.chunks)
        held, dying = sorted(processes.started[:2], key=lambda process: 2 in process.chunks[-1])
        assert dying.gate is not None
        dying.gate.set()

        # Each delivery is called alone, in a new process; the deadly delivery ends the new process, too.
        await eventually(lambda: {2, 3} <= it.ends().keys())
        assert len(it.queue) == 1, "the long call continues"
        assert held.gate is not None
        held.gate.set()


async def test_after_a_failed_start_the_next_one_begins_after_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_slot, "RESTART", Backoff(0.2, 0.2))
    calls_end, third_is_up = asyncio.Event(), asyncio.Event()

    class Slow(FakeProcess):
        async def ready(self) -> None:
            await third_is_up.wait()

    started: list[FakeProcess] = []

    def start(_: HandlerSpec) -> FakeProcess:
        number = len(started) + 1
        made = Slow if number == 3 else FakeProcess
        started.append(made(Processes().play, comes_up=number != 2, gate=None if number == 1 else calls_end))
        return started[-1]

    # Given three processes: the first is busy, the second fails to start while the third starts and becomes busy, too.
    async with running(spec_of(is_async=False, concurrency=3), start) as it:
        started[0].gate = calls_end
        it.queue.add([delivery(key) for key in range(3)])
        await eventually(lambda: it.stats.failed_starts["order.expired"] == 1)
        third_is_up.set()

        await eventually(lambda: len(started) == 4)
        calls_end.set()
        await eventually(lambda: len(it.ends()) == 3)


async def test_on_hold_a_suspect_is_not_called_and_its_claim_counts() -> None:
    processes = Processes(dies_of(1, 2), gate=asyncio.Event())
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue.add([delivery(1), delivery(2)])
        await eventually(lambda: processes.chunks == [[1], [2]])
        it.may_call = False
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 2)

        assert [(one.delivery.timer_key, one.fails) for one in it.settled] == [(1, None), (2, None)]
        assert (len(it.queue), len(processes.chunks)) == (0, 2), "nothing was called"
