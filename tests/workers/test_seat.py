"""Prove that a seat knows what has become of its process, also while nothing is being called."""

from __future__ import annotations

import asyncio

import pytest

from shardclock import Completed, Failed
from tests.support.handlers import NOON, Processes, delivery, spec_of
from workers.seat import Called, Seat


async def called(seat: Seat, timer_key: int) -> Called:
    """Call one delivery."""
    chunk = [delivery(timer_key)]
    seat.take(chunk, alone=False)
    return await seat.call(chunk, now=lambda: NOON)


async def passes_on() -> None:
    """Let what waits for an event learn of it."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_process_that_ends_while_nothing_is_called_costs_no_attempt(is_async: bool) -> None:
    processes = Processes()
    seat = Seat(spec_of(is_async=is_async), processes)
    assert (await called(seat, 1)).outcomes == [Completed()]

    processes.started[0].die()
    await passes_on()

    assert (await called(seat, 2)).outcomes == [Completed()]
    assert processes.chunks == [[1], [2]]
    assert [process.killed for process in processes.started] == [True, False]
    seat.end()


async def test_one_that_ends_during_a_call_is_that_calls_failure() -> None:
    processes = Processes(gate=asyncio.Event())
    seat = Seat(spec_of(), processes)
    calling = asyncio.create_task(called(seat, 1))
    await passes_on()

    processes.started[0].die()
    await passes_on()
    assert not calling.done(), "the call itself tells what became of it"
    assert processes.gate is not None
    processes.gate.set()

    assert (await calling).outcomes == [Failed("the handler's process ended: exit code 1")]
    assert (await called(seat, 2)).outcomes == [Completed()]
    seat.end()


async def test_an_ended_seat_waits_for_nothing() -> None:
    processes = Processes()
    seat = Seat(spec_of(), processes)
    await called(seat, 1)

    seat.end()
    await passes_on()

    assert len(asyncio.all_tasks()) == 1
    assert (await called(seat, 2)).outcomes == [Completed()]
    assert len(processes.started) == 2
    seat.end()
