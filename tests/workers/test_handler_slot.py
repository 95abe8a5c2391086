"""A slot notices the end of its process, with and without calls."""

from __future__ import annotations

import asyncio

import pytest

from shardclock import Completed, Failed
from shardclock_server.workers.handler_slot import RESTART, ChunkResult, HandlerSlot
from tests.support.handlers import NOON, FakeProcesses, delivery, spec_of


def slot_of(processes: FakeProcesses, *, is_async: bool = True) -> HandlerSlot:
    return HandlerSlot(spec_of(is_async=is_async), processes, failed=print)


async def called(slot: HandlerSlot, timer_key: int) -> ChunkResult:
    """Call one delivery; start a process if no process exists."""
    chunk = [delivery(timer_key)]
    if not slot.is_started:
        await slot.start()
    slot.reserve(chunk, alone=False)
    return await slot.call(chunk, now=lambda: NOON)


async def passes_on() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_end_of_a_process_without_calls_costs_no_attempt(is_async: bool) -> None:
    processes = FakeProcesses()
    slot = slot_of(processes, is_async=is_async)
    assert (await called(slot, 1)).outcomes == [Completed()]

    processes.started[0].die()
    await passes_on()

    assert (await called(slot, 2)).outcomes == [Completed()]
    assert processes.chunks == [[1], [2]]
    assert [process.killed for process in processes.started] == [True, False]
    slot.end()


async def test_the_end_of_a_process_during_a_call_is_a_failed_attempt() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    slot = slot_of(processes)
    calling = asyncio.create_task(called(slot, 1))
    await passes_on()

    processes.started[0].die()
    await passes_on()
    assert not calling.done(), "the call returns its own outcome"
    assert processes.gate is not None
    processes.gate.set()

    assert (await calling).outcomes == [Failed("the handler's process ended: exit code 1")]
    assert (await called(slot, 2)).outcomes == [Completed()]
    slot.end()


async def test_a_chunk_that_can_t_be_sent_is_not_called_and_another_process_starts() -> None:
    processes = FakeProcesses()
    slot = slot_of(processes)
    await called(slot, 1)

    processes.started[0].is_cut_off = True  # the process has just ended, and Ray has not reported the end yet
    uncalled = await called(slot, 2)

    assert (list(uncalled.chunk), [it.timer_key for it in uncalled.uncalled]) == ([], [2])
    assert not slot.is_started
    assert (await called(slot, 2)).outcomes == [Completed()]
    assert slot.has_capacity
    assert processes.chunks == [[1], [2]]
    slot.end()


async def test_a_process_that_was_never_reached_is_started_again_after_a_pause() -> None:
    processes = FakeProcesses()
    slot = slot_of(processes)
    await slot.start()
    processes.started[0].is_cut_off = True

    uncalled = await called(slot, 1)

    assert [it.timer_key for it in uncalled.uncalled] == [1]
    assert slot.failed_starts == 1
    assert (slot.start_in_s or 0.0) > 0.9 * RESTART.pause_s(1)
    slot.end()


async def test_a_chunk_that_can_t_be_sent_makes_no_suspects_of_present_calls() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    slot = slot_of(processes)
    calling = asyncio.create_task(called(slot, 1))
    await passes_on()
    (process,) = processes.started
    process.is_cut_off = True

    uncalled = await called(slot, 2)
    assert [it.timer_key for it in uncalled.uncalled] == [2]
    assert not process.killed, "Ray is about to say how it ended"
    assert not slot.has_capacity

    process.die()
    assert processes.gate is not None
    processes.gate.set()
    assert (await calling).outcomes == [Failed("the handler's process ended: exit code 1")]
    assert not slot.is_started
    slot.end()


async def test_an_unreachable_process_is_ended_after_its_last_answer() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    slot = slot_of(processes)
    calling = asyncio.create_task(called(slot, 1))
    await passes_on()
    (process,) = processes.started
    process.is_cut_off = True
    await called(slot, 2)

    assert processes.gate is not None
    processes.gate.set()

    assert (await calling).outcomes == [Completed()]
    assert process.killed
    assert not slot.is_started
    slot.end()


async def test_an_ended_slot_has_no_waiting_task() -> None:
    processes = FakeProcesses()
    slot = slot_of(processes)
    await called(slot, 1)

    slot.end()
    await passes_on()

    assert len(asyncio.all_tasks()) == 1
    assert (await called(slot, 2)).outcomes == [Completed()]
    assert len(processes.started) == 2
    slot.end()


async def test_without_a_process_there_is_no_call() -> None:
    processes = FakeProcesses()
    slot = slot_of(processes)
    chunk = [delivery(1), delivery(2)]
    assert not slot.has_capacity
    slot.reserve(chunk, alone=False)

    got = await slot.call(chunk, now=lambda: NOON)

    assert (list(got.chunk), got.uncalled) == ([], chunk)
    assert len(slot) == 0
    assert processes.started == []


async def test_a_process_that_ends_before_its_first_call_is_a_failed_start() -> None:
    told: list[str] = []
    processes = FakeProcesses()
    slot = HandlerSlot(spec_of(), processes, failed=told.append)
    await slot.start()

    processes.started[0].die()
    await passes_on()

    assert told == ["the process ended before its first call: the handler's process ended: exit code 1"]
    assert not slot.is_started
    assert 0 < (slot.start_in_s or 0) <= RESTART.pause_s(1)


async def test_each_further_start_waits_twice_as_long_until_a_call_succeeds() -> None:
    processes = FakeProcesses(comes_up=False)
    slot = slot_of(processes)
    for failures in (1, 2, 3):
        await slot.start()
        assert slot.failed_starts == failures
        assert RESTART.pause_s(failures) - 1 < (slot.start_in_s or 0) <= RESTART.pause_s(failures)

    processes.comes_up = True
    await slot.start()
    assert (slot.failed_starts, slot.start_in_s) == (3, None)
    await called(slot, 1)
    assert slot.failed_starts == 0
    slot.end()
