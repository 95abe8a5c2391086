"""The processes of a handler share the calls; the worker leases deliveries only while a process can call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from shardclock.backoff import Backoff
from shardclock_server.sql.deliveries.settle import DeliveryEnding
from shardclock_server.workers import handler_slot
from shardclock_server.workers.handler import HandlerSpec
from tests.support.deliveries import deliver
from tests.support.factories import HolderClient, value
from tests.support.handler_queues import RunningQueue, dies_of, running
from tests.support.handlers import NOON, FakeProcess, FakeProcesses, delivery, spec_of
from tests.support.waiting import eventually
from tests.support.working import ended, working

QUICK_CALLS = 200  # after this number of calls a process gets large chunks


@asynccontextmanager
async def two_quick_processes(processes: FakeProcesses) -> AsyncIterator[RunningQueue]:
    """Run a queue with two running processes that get large chunks."""
    async with running(spec_of(is_async=False, concurrency=2), processes) as it:
        for first in range(1_000, 1_000 + QUICK_CALLS, 10):
            it.queue.add([delivery(key) for key in range(first, first + 10)])
            await eventually(lambda: len(it.queue) == 0)
        assert len(processes.started) == 2
        it.settled.clear()
        yield it


async def test_a_delivery_goes_to_the_process_with_the_fewest_calls() -> None:
    processes = FakeProcesses()
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


async def test_suspects_get_a_separate_process_during_a_long_call_of_another_process() -> None:
    processes = FakeProcesses(dies_of(2))
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

        # Each delivery is called alone, in a new process; the deadly delivery also kills the new process.
        await eventually(lambda: {2, 3} <= it.ends().keys())
        assert len(it.queue) == 1, "the long call continues"
        assert held.gate is not None
        held.gate.set()


async def test_after_a_failed_start_the_next_one_begins_after_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_slot, "RESTART", Backoff(0.2, 0.2))
    calls_end, third_is_up = asyncio.Event(), asyncio.Event()

    class SlowProcess(FakeProcess):
        async def ready(self) -> None:
            await third_is_up.wait()

    started: list[FakeProcess] = []

    def start(_: HandlerSpec) -> FakeProcess:
        number = len(started) + 1
        made = SlowProcess if number == 3 else FakeProcess
        started.append(made(FakeProcesses().play, comes_up=number != 2, gate=None if number == 1 else calls_end))
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
    processes = FakeProcesses(dies_of(1, 2), gate=asyncio.Event())
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue.add([delivery(1), delivery(2)])
        await eventually(lambda: processes.chunks == [[1], [2]])
        it.may_call = False
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 2)

        assert [(one.delivery.timer_key, one.fails) for one in it.settled] == [(1, None), (2, None)]
        assert (len(it.queue), len(processes.chunks)) == (0, 2), "nothing was called"


async def test_no_delivery_is_leased_until_a_process_is_up() -> None:
    # Otherwise a worker that dies during the start would use up one of the twenty claims of each delivery, without a
    # call.
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(), processes, up=False) as it:
        assert it.queue.places == 1
        it.queue.add([delivery(1), delivery(2)])

        assert (len(it.queue), it.queue.places) == (0, 0)
        assert it.ends() == {1: None, 2: None}
        assert not any(one.fails for one in it.settled)
        await eventually(lambda: it.queue.places > 1)
        assert [one.timer_key for one in it.claimed_again] == [1, 2], "they are claimed as soon as it is up"
    assert len(processes.started) == 1
    assert processes.chunks == []
    assert [one.delay_s for one in it.settled] == [None, None], "they are due as they were"


async def test_without_a_process_no_attempt_fails_and_one_delivery_is_claimed_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handler_slot, "RESTART", Backoff(0.05, 0.05))
    processes = FakeProcesses(comes_up=False)
    async with running(spec_of(), processes, up=False) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: bool(processes.started) and processes.started[0].killed)
        assert it.queue.places == 0, "it pauses"

        await eventually(lambda: it.queue.places == 1)
        it.queue.add([delivery(1)])
        await eventually(lambda: it.stats.failed_starts["order.expired"] == 2)
        assert [(one.ending, one.fails) for one in it.settled] == [(None, False)] * 2
        assert sum(it.stats.lags["handler"].counts) == 0, "none was called"


async def test_an_expired_delivery_ends_though_its_handler_does_not_start() -> None:
    processes = FakeProcesses(comes_up=False)
    async with running(spec_of(give_up_after_s=10.0, max_attempts=1), processes, up=False) as it:
        it.queue.add([delivery(1, fired_at=NOON - timedelta(seconds=30))])

        assert it.ends() == {1: DeliveryEnding.DEAD}


async def test_a_dead_process_s_deliveries_are_released_if_no_other_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_slot, "RESTART", Backoff(0.001, 0.001))
    processes = FakeProcesses()
    async with running(spec_of(rate_per_s=0.01), processes) as it:
        processes.comes_up = False
        processes.started[0].die()
        it.queue.add([delivery(1), delivery(2)])  # claimed before the worker has noticed the death
        await eventually(lambda: it.ends() == {1: None, 2: None})
        assert len(it.queue) == 0

        processes.comes_up = True
        await eventually(lambda: it.queue.places == 1)
        it.queue.add([delivery(1)])
        await eventually(lambda: it.queue.is_up)
        it.queue.add([delivery(1)])
        await eventually(
            lambda: it.ends()[1] is DeliveryEnding.DELIVERED
        )  # no earlier call began, so the next call does not wait 100 s


async def test_a_slot_that_does_not_start_blocks_no_other_slot() -> None:
    # Given a plain handler with two processes; one of them has died and can't start again
    processes = FakeProcesses()
    async with running(spec_of(is_async=False, concurrency=2), processes) as it:
        it.queue.add([delivery(key) for key in range(4)])
        await eventually(lambda: len(processes.started) == 2 and len(it.settled) == 4)
        processes.comes_up = False
        processes.started[0].die()
        await eventually(lambda: processes.started[0].killed)

        for first in range(4, 40, 6):
            it.queue.add([delivery(key) for key in range(first, first + 6)])
            await eventually(lambda: len(it.queue) == 0)

    assert set(it.ends().values()) == {DeliveryEnding.DELIVERED}
    assert len(it.settled) == 40, "nothing was given back"
    assert it.stats.failed_starts["order.expired"] == 1, "and it is not tried for each of them"


async def test_further_processes_start_during_the_calls_of_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(is_async=False, concurrency=4), processes) as it:
        processes.comes_up = False  # the first process has already started
        it.queue.add([delivery(key) for key in range(3)])
        await eventually(lambda: it.stats.failed_starts["order.expired"] == 2)

        assert processes.chunks == [[0]]
        assert it.settled == []
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: it.ends() == dict.fromkeys(range(3), DeliveryEnding.DELIVERED))


async def test_deliveries_that_wait_for_the_rate_start_no_further_process() -> None:
    processes = FakeProcesses()
    async with running(spec_of(is_async=False, concurrency=4, rate_per_s=40.0), processes) as it:
        it.queue.add([delivery(key) for key in range(4)])
        await eventually(lambda: len(it.settled) == 4)

    assert len(processes.started) == 1


async def test_a_released_suspect_has_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given two deliveries in a process that dies, and a handler with a next process that does not start
    processes = FakeProcesses(dies_of(1))
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: len(it.settled) == 1)
        processes.comes_up = False
        it.queue.add([delivery(1), delivery(2)])
        await eventually(lambda: len(it.settled) == 3)

    # Then the claims of both deliveries still count, because each of the two may be the cause
    assert [(one.ending, one.fails) for one in it.settled[1:]] == [(None, None)] * 2


async def test_a_handler_that_does_not_start_leaves_no_claim(dsn: str, shard: HolderClient) -> None:
    await deliver(shard, 300)
    processes = FakeProcesses(comes_up=False)
    async with working(dsn, processes, is_up=False) as worker:
        await eventually(lambda: bool(processes.started))
        await eventually(lambda: len(worker) == 0)
        assert await value(dsn, "select sum(claims - given_back) from shardclock.deliveries") == 0

    async with working(dsn, FakeProcesses(), is_up=False):
        await eventually(lambda: _is_empty(dsn))
    assert await ended(dsn) == {"DELIVERED": 300}


async def _is_empty(dsn: str) -> bool:
    return bool(await value(dsn, "select not exists (select from shardclock.deliveries)"))
