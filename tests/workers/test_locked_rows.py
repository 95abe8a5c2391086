"""A client's open transaction on one row delays only the settlement and the renewal of this row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg
import pytest

import shardclock_server.workers.deliveries
import shardclock_server.workers.settler
from shardclock_server.sql.deliveries.claim import Renewal, renew_deliveries
from shardclock_server.sql.deliveries.settle import Unsettled, settle_deliveries
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.settler import LOCKED_PAUSE_S
from tests.support.deliveries import deliver, deliveries
from tests.support.factories import BOUND_S, HolderClient, query, value
from tests.support.handlers import FakeProcesses
from tests.support.waiting import eventually
from tests.support.working import QUICK, ended, working

SHORT = QUICK.model_copy(update={"delivery_lease_s": 0.6})


@asynccontextmanager
async def locked(dsn: str, timer_key: int) -> AsyncIterator[None]:
    """Hold a delivery's lock in a client's transaction during a block."""
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("select from shardclock.deliveries where timer_key = $1 for update", timer_key)
        yield
    finally:
        await transaction.rollback()
        await connection.close(timeout=BOUND_S)


async def _is(dsn: str, count: int) -> bool:
    return bool(await value(dsn, "select count(*) = $1 from shardclock.deliveries", count))


async def _renewed(dsn: str, since: dict[int, Any]) -> set[int]:
    return {row["timer_key"] for row in await deliveries(dsn) if row["claimed_until"] > since[row["timer_key"]]}


async def test_a_locked_delivery_is_settled_after_its_lock_and_all_others_before(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[float] = []

    async def settle(*arguments: Any, **more: Any) -> Unsettled:
        sent.append(time.monotonic())
        return await settle_deliveries(*arguments, **more)

    monkeypatch.setattr(shardclock_server.workers.settler, "settle_deliveries", settle)
    processes = FakeProcesses(gate=asyncio.Event())
    keys = await deliver(shard, 3)
    async with working(dsn, processes) as worker:
        await eventually(lambda: [keys[0]] in processes.chunks and len(worker) == 3)
        async with locked(dsn, keys[0]):
            assert processes.gate is not None
            processes.gate.set()
            await eventually(partial(_is, dsn, 1))
            keys += await deliver(shard, 50)
            await eventually(partial(_is, dsn, 1))
            sent.clear()
            await eventually(lambda: len(sent) >= 2)
            assert sent[1] - sent[0] >= 0.9 * LOCKED_PAUSE_S, "outcomes of locked rows are sent again after a pause"
            assert len(worker) == 1
        await eventually(partial(_is, dsn, 0))
        await eventually(lambda: len(worker) == 0)

    assert sorted(key for chunk in processes.chunks for key in chunk) == keys, "each was called once"
    assert await ended(dsn) == {"DELIVERED": 53}
    assert (worker.stats.lost, worker.stats.failures["settles"]) == (0, 0)


async def test_a_locked_delivery_remains_leased_and_delays_no_renewal_of_other_deliveries(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    keys = await deliver(shard, 2)
    async with working(dsn, processes, settings=SHORT) as worker:
        await eventually(lambda: [keys[0]] in processes.chunks and len(worker) == 2)
        monkeypatch.setattr(DeliveryPlanner, "scan_of_known_lanes", lambda *_: None)
        monkeypatch.setattr(DeliveryPlanner, "search_pause_s", lambda *_: 600.0)
        async with locked(dsn, keys[0]):
            since = {row["timer_key"]: row["claimed_until"] for row in await deliveries(dsn)}
            await eventually(partial(_renewed_are, dsn, since, {keys[1]}))
            since = {row["timer_key"]: row["claimed_until"] for row in await deliveries(dsn)}
            await eventually(partial(_renewed_are, dsn, since, {keys[1]}))
            assert len(worker) == 2
        await eventually(partial(_renewed_are, dsn, since, set(keys)))
        assert processes.gate is not None
        processes.gate.set()
        await eventually(partial(_is, dsn, 0))
        monkeypatch.undo()

    assert await ended(dsn) == {"DELIVERED": 2}
    assert (worker.stats.lost, worker.stats.failures["renewals"]) == (0, 0)


async def _renewed_are(dsn: str, since: dict[int, Any], keys: set[int]) -> bool:
    return await _renewed(dsn, since) == keys


async def test_leases_are_renewed_in_batches(dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    async def renew(session: Any, holder: int, old: Any, **more: Any) -> Renewal:
        batches.append(len(old))
        return await renew_deliveries(session, holder, old, **more)

    monkeypatch.setattr(shardclock_server.workers.deliveries, "RENEWED_MAX", 2)
    monkeypatch.setattr(shardclock_server.workers.deliveries, "renew_deliveries", renew)
    processes = FakeProcesses(gate=asyncio.Event())
    keys = await deliver(shard, 5)
    async with working(dsn, processes, settings=SHORT) as worker:
        await eventually(lambda: len(worker) == 5)
        since = {row["timer_key"]: row["claimed_until"] for row in await deliveries(dsn)}
        await eventually(partial(_renewed_are, dsn, since, set(keys)))
        await query(dsn, "delete from shardclock.deliveries")

    assert batches[:3] == [2, 2, 1]
