"""If the worker's own code fails during a call, the call's deliveries do not stay leased."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from unittest import mock

import pytest

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers import handler_queue
from shardclock_server.workers.handler_slot import ChunkResult, HandlerSlot
from shardclock_server.workers.task_set import TaskSet
from tests.support.deliveries import deliver
from tests.support.factories import BOUND_S, HolderClient, value
from tests.support.handlers import FakeProcesses, spec_of
from tests.support.waiting import eventually
from tests.support.working import assigned, ended, worker_of, working


async def test_the_error_of_a_call_is_reported_and_a_cancellation_is_not() -> None:
    told: list[BaseException] = []
    calls, error = TaskSet(told.append), ZeroDivisionError("ours")

    async def fail() -> None:
        raise error

    async def last() -> None:
        await asyncio.Event().wait()

    calls.begin(fail())
    calls.begin(last())
    await eventually(lambda: len(calls) == 1)
    await calls.break_off()
    assert (told, len(calls)) == ([error], 0)


async def test_a_fault_of_the_worker_in_a_call_is_a_failed_attempt_only_of_the_calls_deliveries(
    dsn: str, shard: HolderClient
) -> None:
    call, processes = HandlerSlot.call, FakeProcesses()
    (bad, *good) = await deliver(shard, 3)

    async def on_fault(
        self: HandlerSlot, chunk: Sequence[ClaimedDelivery], *, now: Callable[[], datetime]
    ) -> ChunkResult:
        called = await call(self, chunk, now=now)
        if [it.timer_key for it in called.chunk] == [bad]:
            raise ZeroDivisionError("ours")
        return called

    with mock.patch.object(HandlerSlot, "call", on_fault):
        async with working(dsn, processes, spec_of(is_async=False, max_attempts=1)):
            await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": len(good), "DEAD": 1}
    reason = await value(dsn, "select reason from shardclock.dead_letters")
    assert reason == "the worker failed: ZeroDivisionError: ours (attempt 1 of 1)"


async def test_a_worker_that_loses_the_outcome_of_a_call_ends_and_another_makes_the_call(
    dsn: str, shard: HolderClient
) -> None:
    await deliver(shard)
    worker = worker_of(dsn, FakeProcesses())
    with mock.patch.object(handler_queue, "settlement_of", side_effect=ZeroDivisionError("ours")):
        run = asyncio.create_task(worker.run())
        await eventually(lambda: assigned(dsn, worker.holder))
        with pytest.raises(ZeroDivisionError, match="ours"):
            await asyncio.wait_for(run, BOUND_S)
    async with working(dsn, FakeProcesses()):
        await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": 1}


async def _is(dsn: str, deliveries: int) -> bool:
    return bool(await value(dsn, "select count(*) = $1 from shardclock.deliveries", deliveries))
