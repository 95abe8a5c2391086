"""Run a worker in the test's own process, with fake handler processes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.sql.cluster.holders import WORKER, Incarnation
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.worker import Worker
from tests.support.factories import query
from tests.support.handlers import FakeProcesses, spec_of
from tests.support.roles import as_role
from tests.support.waiting import eventually

QUICK = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02)


def no_runs(needs: RunResources) -> RunProcess:
    raise AssertionError(f"a worker without jobs starts no run ({needs})")


@asynccontextmanager
async def working(
    dsn: str,
    processes: FakeProcesses,
    spec: HandlerSpec | None = None,
    settings: WorkerSettings = QUICK,
    *,
    is_up: bool = True,
) -> AsyncIterator[Worker]:
    """Run a worker with all slots during a block, then drain it; with `is_up` first wait for its handler's process."""
    spec = spec or spec_of()
    worker = worker_of(dsn, processes, spec, settings)
    run = asyncio.create_task(worker.run())
    try:
        if is_up:
            worker.deliveries.handlers.add(spec.target, [])
            await eventually(lambda: worker.deliveries.handlers.places[spec.target] > 0)
        await eventually(lambda: assigned(dsn, worker.holder))
        yield worker
    finally:
        await worker.drain()
        (end,) = await asyncio.gather(run, return_exceptions=True)
        assert end is None or isinstance(end, HolderEnded)


def worker_of(
    dsn: str, processes: FakeProcesses, spec: HandlerSpec | None = None, settings: WorkerSettings = QUICK
) -> Worker:
    incarnation = Incarnation(secrets.randbits(62), WORKER, "test", "test", "test", "test", 1)
    return Worker(incarnation, settings, [spec or spec_of()], as_role(dsn, "shard"), start=processes, start_run=no_runs)


async def assigned(dsn: str, holder: int) -> bool:
    """Give a worker all slots, if it is registered."""
    text = "update shardclock.holders set part = 0, part_count = 1 where holder = $1 and ended_at is null returning 1"
    return bool(await query(dsn, text, holder))


async def ended(dsn: str) -> dict[str, int]:
    rows = await query(
        dsn, "select intent, count(*) from shardclock.command_log where intent <> 'TRIGGERED' group by 1"
    )
    return dict(map(tuple, rows))
