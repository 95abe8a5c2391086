"""A worker's searches find deliveries in lanes that its claims don't read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import shardclock_server.workers.deliveries
from shardclock_server.sql.deliveries.claim import DeliveryScan, DeliveryScanResult, claim_deliveries
from shardclock_server.sql.session import StoreUnavailable
from tests.support.deliveries import HANDLER, deliver, deliveries
from tests.support.factories import HolderClient
from tests.support.handlers import FakeProcesses, spec_of
from tests.support.waiting import eventually
from tests.support.working import working


async def test_a_search_without_an_answer_stops_no_claim(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = 0

    async def answers_once(session: Any, holder: int, scan: DeliveryScan, **more: Any) -> DeliveryScanResult:
        nonlocal found
        if scan.lanes is None and found:  # a search before the assignment of slots has no result
            raise StoreUnavailable("it took too long")
        result = await claim_deliveries(session, holder, scan, **more)
        found += result.lanes
        return result

    monkeypatch.setattr(shardclock_server.workers.deliveries, "claim_deliveries", answers_once)
    await deliver(shard)
    async with working(dsn, FakeProcesses()) as worker:
        await eventually(lambda: _all_have_ended(dsn))
        await eventually(lambda: worker.stats.failures["searches"] >= 2)
        await deliver(shard, 50)
        await eventually(lambda: _all_have_ended(dsn))

    assert worker.stats.failures["claims"] == 0


async def test_a_search_claims_deliveries_that_the_claims_of_a_busy_handler_have_skipped(
    dsn: str, shard: HolderClient
) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with working(dsn, processes, spec_of(concurrency=4)) as worker:
        half = worker.deliveries.handlers.places[HANDLER] // 2 + 1
        await deliver(shard, half)
        await eventually(lambda: len(worker) == half)
        assert worker.deliveries.handlers.places[HANDLER] == 0

        (passed,) = await deliver(shard)
        await eventually(lambda: len(worker) == half + 1)

        assert [row["timer_key"] for row in await deliveries(dsn) if row["claimed_by"] is not None][-1] == passed
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(worker) == 0)


async def test_a_worker_is_idle_while_there_is_no_delivery(dsn: str, shard: HolderClient) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with working(dsn, processes) as worker:
        planner = worker.deliveries._planner
        await eventually(lambda: planner.is_idle)

        await deliver(shard)
        await eventually(lambda: len(worker) == 1)

        assert not planner.is_idle
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: planner.is_idle)


async def _all_have_ended(dsn: str) -> bool:
    return not await deliveries(dsn)
