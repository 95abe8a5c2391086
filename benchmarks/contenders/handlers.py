"""Shardclock with handlers, and its upper limit: only the SQL statements of a timer from its creation to its end."""

import asyncio
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders.contender import Batch, Firing
from benchmarks.contenders.ours import LOOK_EVERY_S, PATIENCE_S, Limit, OnRay, Ours
from benchmarks.contenders.recorded import Recorded
from benchmarks.rows import holder_of
from shardclock_server.sql.cluster.holders import WORKER, list_holders
from shardclock_server.sql.deliveries.claim import ClaimedDelivery, DeliveryScan, claim_deliveries
from shardclock_server.sql.deliveries.handlers import DeclaredHandler, declare_handlers
from shardclock_server.sql.deliveries.settle import (
    SETTLE_PLANS,
    DeliveryEnding,
    Settlement,
    Unsettled,
    settle_deliveries,
)
from shardclock_server.sql.session import Session
from shardclock_server.workers.app import find_app
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.settings import WorkerSettings

APP = Path(__file__).with_name("noting.py")
HANDLERS = {
    "async": "`async def`, one timer a call",
    "plain": "`def`, one timer a call",
    "batch": "`async def`, batch=500",
}
WORKERS = 2
# The jobs of the peers have the same payload.
PUT = """
    insert into shardclock.timers (due_date, target, payload)
    select t.due, $4, jsonb_build_object('due', extract(epoch from t.due))
    from (
        select $1::timestamptz + n * $3::double precision * interval '1 second' as due
        from generate_series(0, $2::integer - 1) n
    ) t
"""
LEFT = """
    select (select count(*) from shardclock.timers)
        + (select count(*) from shardclock.deliveries)
        + (select count(*) from shardclock.dead_letters)
"""


class _Calling(Ours):
    target: str
    left = LEFT

    async def put(self, batch: Batch) -> None:
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            await connection.execute(PUT, batch.at, batch.count, batch.every_s, self.target)


class WithHandler(Recorded, _Calling, OnRay):
    """A cluster of two shards and two workers, as `shardclock up --app` starts it; all timers have the same target."""

    def __init__(self, target: str) -> None:
        super().__init__(2)
        self.target = target
        self.name = f"Shardclock, {target} handler"
        self.settings = f"as shipped, two shards and two workers; {HANDLERS[target]}"

    async def open(self, dsn: str) -> None:
        """Set up the database, and declare the app's handlers."""
        await super().open(dsn)
        shutil.copy(APP, self.folder)
        self.app = await asyncio.to_thread(find_app, APP.stem, self.folder)
        async with self.session() as session:
            await declare_handlers(session, [it.declared() for it in self.app.handlers])

    async def launch(self) -> None:
        """Start the cluster, and return when shards and workers have their slots."""
        await super().launch()
        await wait_for_workers(self)


async def wait_for_workers(contender: Ours) -> None:
    """Wait until the workers have their slots."""
    async with contender.session() as session:
        while sum(it.part_count == WORKERS for it in await list_holders(session, WORKER)) < WORKERS:
            await asyncio.sleep(0.05)


class SqlAlone(_Calling, Limit):
    """Repeat the statements that fire timers, and claim and settle deliveries; a claim counts as a call."""

    name = "our SQL alone"
    settings = "two loops that fire, two loops that claim and settle deliveries; no Ray, and no calls"
    target = "nothing"

    def __init__(self) -> None:
        super().__init__()
        self._called: list[Firing] = []

    async def open(self, dsn: str) -> None:
        """Set up the database, and declare a handler without an app."""
        await super().open(dsn)
        async with self.session() as session:
            await declare_handlers(session, [DeclaredHandler(self.target, "nowhere:nothing", "{}")])

    async def start(self) -> None:
        """Start two loops that fire and two loops that deliver; each loop has half of the slots."""
        await super().start()
        self._loops += [asyncio.create_task(self._deliver(worker)) for worker in range(WORKERS)]

    async def count(self) -> int:
        """Count the claimed deliveries; raise the error of a failed loop."""
        self.raise_failures()
        return len(self._called)

    async def firings(self) -> Sequence[Firing]:
        """Return the time of each claim."""
        return self._called

    async def _deliver(self, worker: int) -> None:
        """Claim deliveries, and settle the deliveries of each claim during the next claim, as a worker does."""
        wanted, planner = DeliveryScan([self.target], WorkerSettings().delivery_batch), DeliveryPlanner()
        settles = Session(self.dsn, application="benchmark", timeout_s=PATIENCE_S, plans=SETTLE_PLANS)
        async with self.session() as claims, settles, asyncio.TaskGroup() as tasks:
            holder = await holder_of(claims, worker, WORKERS, role=WORKER)
            settling: asyncio.Task[Unsettled] | None = None
            while True:
                claimed = await self._claim(claims, holder, planner, wanted)
                now_s = time.time()
                self._called += [Firing(it.due_date.timestamp(), now_s) for it in claimed]
                if settling is not None:
                    await settling
                    settling = None
                if claimed:
                    settling = tasks.create_task(settle_deliveries(settles, holder, _delivered(claimed)))
                else:
                    await asyncio.sleep(LOOK_EVERY_S)

    async def _claim(
        self, session: Session, holder: int, planner: DeliveryPlanner, wanted: DeliveryScan
    ) -> Sequence[ClaimedDelivery]:
        began_s = time.monotonic()
        scan = planner.scan_of_known_lanes(wanted)
        if scan is None or not planner.search_pause_s(began_s):
            scan = planner.search(wanted)
        taken = await claim_deliveries(session, holder, scan, lease_s=10)
        planner.record(scan, taken, began_s=began_s, ended_s=time.monotonic())
        return taken.claimed


def _delivered(claimed: Sequence[ClaimedDelivery]) -> list[Settlement]:
    return [Settlement(delivery, DeliveryEnding.DELIVERED) for delivery in claimed]
