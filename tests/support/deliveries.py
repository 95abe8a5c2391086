"""Declare handlers, make deliveries as a firing makes them, and claim and settle deliveries as a worker does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.deliveries.claim import (
    Claim,
    ClaimedDelivery,
    DeliveryScan,
    DeliveryScanResult,
    claim_deliveries,
)
from shardclock_server.sql.deliveries.handlers import DeclaredHandler, declare_handlers
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS, DeliveryEnding, Settlement, settle_deliveries
from shardclock_server.sql.session import QUEUE_PLANS, Session
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_timers, query
from tests.support.roles import as_role

HANDLER = "order.expired"
NO_PLACES: Mapping[str, int] = MappingProxyType({})


async def declare(dsn: str, *targets: str) -> dict[str, str]:
    """Declare handlers, as `up --app` does; return the changes."""
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        return await declare_handlers(session, [DeclaredHandler(target, f"app:{target}", "{}") for target in targets])


async def add_worker(
    dsn: str,
    holder: int,
    part: int | None = 0,
    part_count: int | None = 1,
    *,
    targets: Sequence[str] = (HANDLER,),
    functions: Sequence[str] = (),
) -> None:
    """Register a worker with its handlers, its jobs' functions and its assignment, as the coordinator does."""
    await add_holder(dsn, holder, part, part_count, role=WORKER)
    text = "update shardclock.holders set targets = $2, functions = $3 where holder = $1"
    await query(dsn, text, holder, list(targets), list(functions))


async def deliver(shard: HolderClient, count: int = 1, *, target: str = HANDLER, **columns: str) -> list[int]:
    """Fire timers of a target; return their keys."""
    keys = await add_timers(shard.dsn, count, target=f"'{target}'", **columns)
    result = await shard.take(fire_overdue=True)
    assert result.fired >= count
    return keys


async def let_die(dsn: str, count: int) -> list[int]:
    """Make deliveries dead letters, one after the other; return their keys."""
    await add_holder(dsn, 1)
    keys: list[int] = []
    async with HolderClient(dsn, holder=1) as shard, serving_worker(dsn) as worker:
        for _ in range(count):
            keys += await deliver(shard)
            await worker.settle(*map(dead, await worker.take()))
    return keys


async def deliveries(dsn: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await query(dsn, "select * from shardclock.deliveries order by timer_key")]


@dataclass(eq=False)
class WorkerClient:
    """The two connections of a worker that a test controls statement by statement."""

    dsn: str
    holder: int
    now: datetime | None = None
    targets: Sequence[str] = (HANDLER,)

    async def __aenter__(self) -> Self:
        as_shard = as_role(self.dsn, "shard")
        self.claims = Session(as_shard, application="test", timeout_s=BOUND_S, plans=QUEUE_PLANS)
        self.settles = Session(as_shard, application="test", timeout_s=BOUND_S, plans=SETTLE_PLANS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.claims.close()
        await self.settles.close()

    async def scan(
        self, batch: int = 100, *, places: Mapping[str, int] = NO_PLACES, webhooks: int = 0
    ) -> DeliveryScanResult:
        """Claim at most the number of deliveries in `places` for each target; an endpoint without an entry gets
        `webhooks`.
        """
        scan = DeliveryScan(self.targets, batch, webhooks=webhooks, places=places)
        return await claim_deliveries(self.claims, self.holder, scan, lease_s=10.0, now=self.now)

    async def take(self, places: Mapping[str, int] = NO_PLACES, *, batch: int = 100) -> list[ClaimedDelivery]:
        return (await self.scan(batch, places=places)).claimed

    async def settle(self, *settlements: Settlement) -> frozenset[Claim]:
        """Settle attempts; return the claims that were settled."""
        unsettled = await settle_deliveries(self.settles, self.holder, settlements, now=self.now)
        assert not unsettled.locked, "it was not asked to leave out locked ones"
        return frozenset(it.delivery.claim for it in settlements) - unsettled.lost


@asynccontextmanager
async def serving_worker(
    dsn: str, holder: int = 11, *, targets: Sequence[str] = (HANDLER,), now: datetime | None = None
) -> AsyncIterator[WorkerClient]:
    """Declare handlers, and yield a registered worker for these handlers that has all slots."""
    await declare(dsn, *targets)
    await add_worker(dsn, holder)
    async with WorkerClient(dsn, holder, now, targets) as worker:
        yield worker


def done(delivery: ClaimedDelivery) -> Settlement:
    return Settlement(delivery, DeliveryEnding.DELIVERED, duration_s=0.003)


def failed(delivery: ClaimedDelivery, delay_s: float = 60.0, reason: str = "it raised") -> Settlement:
    """Settle an attempt as failed; another attempt follows."""
    return Settlement(delivery, None, fails=True, delay_s=delay_s, duration_s=0.003, reason=reason)


def dead(delivery: ClaimedDelivery, reason: str = "it raised too often") -> Settlement:
    """Settle the last attempt as failed."""
    return Settlement(delivery, DeliveryEnding.DEAD, fails=True, duration_s=0.003, reason=reason)


async def add_deliveries(dsn: str, count: int, target: str = HANDLER, **columns: str) -> None:
    """Insert deliveries as if their timers had fired; the columns are SQL expressions with a counter i from 1."""
    facts = {
        "timer_key": "coalesce((select max(timer_key) from shardclock.deliveries), 0) + i",
        "next_attempt_at": "now() - interval '1 s'",
        "due_date": "now()",
        "created_at": "now()",
        "occurrence": "1",
        "slot": "i % 840",
        "tenant_id": "'acme'",
        "timer_type": "'USER'",
    } | columns
    names, values = ", ".join(["target", *facts]), ", ".join(["$2", *facts.values()])
    text = f"insert into shardclock.deliveries ({names}) select {values} from generate_series(1, $1) i"
    await query(dsn, text, count, target)


async def bury(dsn: str, count: int, target: str = HANDLER) -> None:
    text = """
        insert into shardclock.dead_letters (timer_key, due_date, created_at, fired_at, occurrence, claims,
            failed_attempts, slot, tenant_id, timer_type, target, reason)
        select coalesce((select max(timer_key) from shardclock.dead_letters), 0) + i, now(), now(), now(), 1, 10, 10,
            i % 840, 'acme', 'USER', $2, 'it raised too often'
        from generate_series(1, $1) i
    """
    await query(dsn, text, count, target)
