"""Prove that a seat knows what has become of its process, also while nothing is being called."""

from __future__ import annotations

import asyncio

import pytest

from shardclock import Completed, Failed
from shardclock_server.workers.seat import RESTART, Called, Seat
from tests.support.handlers import NOON, Processes, delivery, spec_of


def seat_of(processes: Processes, *, is_async: bool = True) -> Seat:
    """Make a seat whose process is not started."""
    return Seat(spec_of(is_async=is_async), processes, failed=print)


async def called(seat: Seat, timer_key: int) -> Called:
    """Call one delivery, in a process that is started if there is none."""
    chunk = [delivery(timer_key)]
    if not seat.is_started:
        await seat.start()
    seat.take(chunk, alone=False)
    return await seat.call(chunk, now=lambda: NOON)


async def passes_on() -> None:
    """Let what waits for an event learn of it."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_process_that_ends_while_nothing_is_called_costs_no_attempt(is_async: bool) -> None:
    processes = Processes()
    seat = seat_of(processes, is_async=is_async)
    assert (await called(seat, 1)).outcomes == [Completed()]

    processes.started[0].die()
    await passes_on()

    assert (await called(seat, 2)).outcomes == [Completed()]
    assert processes.chunks == [[1], [2]]
    assert [process.killed for process in processes.started] == [True, False]
    seat.end()


async def test_one_that_ends_during_a_call_is_that_calls_failure() -> None:
    processes = Processes(gate=asyncio.Event())
    seat = seat_of(processes)
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


async def test_what_can_t_be_sent_any_more_is_not_called_and_another_process_starts() -> None:
    processes = Processes()
    seat = seat_of(processes)
    await called(seat, 1)

    processes.started[0].is_cut_off = True  # it has ended just now, and Ray has not said so
    uncalled = await called(seat, 2)

    assert (list(uncalled.chunk), [it.timer_key for it in uncalled.uncalled]) == ([], [2])
    assert not seat.is_started
    assert (await called(seat, 2)).outcomes == [Completed()]
    assert seat.has_room
    assert processes.chunks == [[1], [2]]
    seat.end()


async def test_a_process_that_nothing_has_ever_reached_is_started_again_after_a_pause() -> None:
    processes = Processes()
    seat = seat_of(processes)
    await seat.start()
    processes.started[0].is_cut_off = True

    uncalled = await called(seat, 1)

    assert [it.timer_key for it in uncalled.uncalled] == [1]
    assert seat.failed_starts == 1
    assert (seat.start_in_s or 0.0) > 0.9 * RESTART.pause_s(1)
    seat.end()


async def test_what_can_t_be_sent_makes_no_suspect_of_what_is_being_called() -> None:
    processes = Processes(gate=asyncio.Event())
    seat = seat_of(processes)
    calling = asyncio.create_task(called(seat, 1))
    await passes_on()
    (process,) = processes.started
    process.is_cut_off = True

    uncalled = await called(seat, 2)
    assert [it.timer_key for it in uncalled.uncalled] == [2]
    assert not process.killed, "Ray is about to say how it ended"
    assert not seat.has_room

    process.die()
    assert processes.gate is not None
    processes.gate.set()
    assert (await calling).outcomes == [Failed("the handler's process ended: exit code 1")]
    assert not seat.is_started
    seat.end()


async def test_a_process_that_answers_though_nothing_reaches_it_is_ended() -> None:
    processes = Processes(gate=asyncio.Event())
    seat = seat_of(processes)
    calling = asyncio.create_task(called(seat, 1))
    await passes_on()
    (process,) = processes.started
    process.is_cut_off = True
    await called(seat, 2)

    assert processes.gate is not None
    processes.gate.set()

    assert (await calling).outcomes == [Completed()]
    assert process.killed
    assert not seat.is_started
    seat.end()


async def test_an_ended_seat_waits_for_nothing() -> None:
    processes = Processes()
    seat = seat_of(processes)
    await called(seat, 1)

    seat.end()
    await passes_on()

    assert len(asyncio.all_tasks()) == 1
    assert (await called(seat, 2)).outcomes == [Completed()]
    assert len(processes.started) == 2
    seat.end()


async def test_without_a_process_nothing_is_called() -> None:
    processes = Processes()
    seat = seat_of(processes)
    chunk = [delivery(1), delivery(2)]
    assert not seat.has_room
    seat.take(chunk, alone=False)

    got = await seat.call(chunk, now=lambda: NOON)

    assert (list(got.chunk), got.uncalled) == ([], chunk)
    assert len(seat) == 0
    assert processes.started == []


async def test_one_that_ends_before_its_first_call_has_not_come_up() -> None:
    told: list[str] = []
    processes = Processes()
    seat = Seat(spec_of(), processes, failed=told.append)
    await seat.start()

    processes.started[0].die()
    await passes_on()

    assert told == ["it ended before its first call: the handler's process ended: exit code 1"]
    assert not seat.is_started
    assert 0 < (seat.start_in_s or 0) <= RESTART.pause_s(1)


async def test_each_further_start_waits_twice_as_long_until_a_call_succeeds() -> None:
    processes = Processes(comes_up=False)
    seat = seat_of(processes)
    for failures in (1, 2, 3):
        await seat.start()
        assert seat.failed_starts == failures
        assert RESTART.pause_s(failures) - 1 < (seat.start_in_s or 0) <= RESTART.pause_s(failures)

    processes.comes_up = True
    await seat.start()
    assert (seat.failed_starts, seat.start_in_s) == (3, None)
    await called(seat, 1)
    assert seat.failed_starts == 0
    seat.end()
