"""A handler's deliveries are leased only while a process can call them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shardclock.backoff import Backoff
from shardclock_server.sql.deliveries.settle import DeliveryEnding
from shardclock_server.workers import handler_slot
from tests.support.deliveries import deliver
from tests.support.factories import HolderClient, value
from tests.support.handler_queues import dies_of, running
from tests.support.handlers import NOON, Processes, delivery, spec_of
from tests.support.waiting import eventually
from tests.support.working import ended, working


async def test_no_delivery_is_leased_until_a_process_is_up() -> None:
    # A worker that died during the start would otherwise use up one of twenty claims of each delivery without a call.
    processes = Processes(gate=asyncio.Event())
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
    processes = Processes(comes_up=False)
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
    processes = Processes(comes_up=False)
    async with running(spec_of(give_up_after_s=10.0, max_attempts=1), processes, up=False) as it:
        it.queue.add([delivery(1, fired_at=NOON - timedelta(seconds=30))])

        assert it.ends() == {1: DeliveryEnding.DEAD}


async def test_a_dead_process_s_deliveries_are_released_if_no_other_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_slot, "RESTART", Backoff(0.001, 0.001))
    processes = Processes()
    async with running(spec_of(rate_per_s=0.01), processes) as it:
        processes.comes_up = False
        processes.started[0].die()
        it.queue.add([delivery(1), delivery(2)])  # claimed before the death was known
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
    processes = Processes()
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


async def test_further_processes_start_beside_the_calls_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(gate=asyncio.Event())
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
    processes = Processes()
    async with running(spec_of(is_async=False, concurrency=4, rate_per_s=40.0), processes) as it:
        it.queue.add([delivery(key) for key in range(4)])
        await eventually(lambda: len(it.settled) == 4)

    assert len(processes.started) == 1


async def test_a_released_suspect_has_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given two deliveries in a process that dies, and a handler whose next process does not start
    processes = Processes(dies_of(1))
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: len(it.settled) == 1)
        processes.comes_up = False
        it.queue.add([delivery(1), delivery(2)])
        await eventually(lambda: len(it.settled) == 3)

    # Then both deliveries keep their counted claims, because either may be the cause
    assert [(one.ending, one.fails) for one in it.settled[1:]] == [(None, None)] * 2


async def test_a_handler_that_does_not_start_leaves_no_claim(dsn: str, shard: HolderClient) -> None:
    await deliver(shard, 300)
    processes = Processes(comes_up=False)
    async with working(dsn, processes, is_up=False) as worker:
        await eventually(lambda: bool(processes.started))
        await eventually(lambda: len(worker) == 0)
        assert await value(dsn, "select sum(claims - given_back) from shardclock.deliveries") == 0

    async with working(dsn, Processes(), is_up=False):
        await eventually(lambda: _is_empty(dsn))
    assert await ended(dsn) == {"DELIVERED": 300}


async def _is_empty(dsn: str) -> bool:
    return bool(await value(dsn, "select not exists (select from shardclock.deliveries)"))
