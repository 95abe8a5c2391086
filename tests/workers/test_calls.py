"""Calls that a fault of ours ends leave nothing in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from unittest import mock

import pytest

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers import handler_queue
from shardclock_server.workers.calls import Calls
from shardclock_server.workers.seat import Called, Seat
from tests.support.deliveries import deliver
from tests.support.factories import BOUND_S, HolderClient, value
from tests.support.handlers import Processes, spec_of
from tests.support.waiting import eventually
from tests.support.working import assigned, ended, worker_of, working


async def test_a_call_that_ends_by_an_error_is_told_and_one_that_is_cancelled_is_not() -> None:
    told: list[BaseException] = []
    calls, error = Calls(told.append), ZeroDivisionError("ours")

    async def fail() -> None:
        raise error

    async def last() -> None:
        await asyncio.Event().wait()

    calls.begin(fail())
    calls.begin(last())
    await eventually(lambda: len(calls) == 1)
    await calls.break_off()
    assert (told, len(calls)) == ([error], 0)


async def test_a_fault_of_ours_in_a_call_costs_its_deliveries_an_attempt_and_no_others(
    dsn: str, shard: HolderClient
) -> None:
    call, processes = Seat.call, Processes()
    (bad, *good) = await deliver(shard, 3)

    async def broken(self: Seat, chunk: Sequence[ClaimedDelivery], *, now: Callable[[], datetime]) -> Called:
        called = await call(self, chunk, now=now)
        if [it.timer_key for it in called.chunk] == [bad]:
            raise ZeroDivisionError("ours")
        return called

    with mock.patch.object(Seat, "call", broken):
        async with working(dsn, processes, spec_of(is_async=False, max_attempts=1)):
            await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": len(good), "DEAD": 1}
    reason = await value(dsn, "select reason from shardclock.dead_letters")
    assert reason == "the worker failed: ZeroDivisionError: ours (attempt 1 of 1)"


async def test_a_worker_that_cannot_tell_what_became_of_a_call_ends_and_another_one_has_it(
    dsn: str, shard: HolderClient
) -> None:
    await deliver(shard)
    worker = worker_of(dsn, Processes())
    with mock.patch.object(handler_queue, "settlement_of", side_effect=ZeroDivisionError("ours")):
        run = asyncio.create_task(worker.run())
        await eventually(lambda: assigned(dsn, worker.holder))
        with pytest.raises(ZeroDivisionError, match="ours"):
            await asyncio.wait_for(run, BOUND_S)
    async with working(dsn, Processes()):
        await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": 1}


async def _is(dsn: str, deliveries: int) -> bool:
    return bool(await value(dsn, "select count(*) = $1 from shardclock.deliveries", deliveries))
