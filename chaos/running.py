"""Run clients and faults on a sandbox, wait until timers and deliveries have ended, and collect the history."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from chaos.clients import Clients
from chaos.dead_letters import Operator
from chaos.history import Bounds, History, Pending, Read
from chaos.history.calls import HandlerCall
from chaos.nemesis import Nemesis
from chaos.plan import Plan
from chaos.process_load import ProcessLoad, deploy_all
from chaos.readers import count_in, positions_in, reading
from chaos.recorder import Recorder
from chaos.sandbox import Sandbox
from chaos.timer_load import Load
from chaos.waiting import until
from tests.support.roles import as_role

FREEZE_S = 2.0
BLOCKED_S = 0.5  # A longer block of the rig is reported, because a blocked rig delays all traffic.
CALM_S = 90.0  # The time limit for due timers and readers after the last fault.
LEFT = """
    select timer_key, due_date, paused_due_date is not null as paused from shardclock.timers order by timer_key
"""
# A delay that was computed while the database's clock was ahead may end in an hour. The run does not wait for timers
# with a wrong delay.
PENDING = """
    select exists (select from shardclock.timers where due_date < now() + interval '1 min')
        or exists (select from shardclock.timers where resume_at is not null)
        or exists (select from shardclock.deliveries)
        or exists (select from shardclock.instances where ended_at is null)
"""
RUNNING = "select instance_key from shardclock.instances where ended_at is null order by instance_key"
OPEN_TASKS = "select task_key from shardclock.tasks order by task_key"
UNDELIVERED = "select timer_key from shardclock.deliveries order by timer_key"
DEAD_LETTERS = "select timer_key from shardclock.dead_letters order by timer_key"
ATTEMPTS = "attempts.ndjson"  # written by `app`

Tell = Callable[[str], None]


async def run(plan: Plan, sandbox: Sandbox, *, bounds: Bounds, tell: Tell) -> History:
    """Run a plan, and return its history."""
    recorder, clients, nemesis = (
        Recorder(sandbox.direct_dsn),
        Clients(as_role(sandbox.dsn, "scheduler")),
        Nemesis(sandbox, plan),
    )
    await recorder.start()
    if plan.instances:
        await deploy_all(as_role(sandbox.direct_dsn, "scheduler"))
    tell(f"starting the cluster ({sandbox.cluster.name})")
    await sandbox.cluster.start(as_role(sandbox.dsn, "shard"), sandbox.direct_dsn)
    began_at = time.time()
    operator = Operator(as_role(sandbox.dsn, "shard"))
    async with reading(sandbox) as followed, _operated(operator), _frozen(), _watched(tell):
        tell(f"{plan.length_s:.0f} s of load, {len(plan.faults)} faults, seed {plan.seed}")
        try:
            async with asyncio.TaskGroup() as work:
                work.create_task(Load(clients, plan).run())
                work.create_task(ProcessLoad(clients, plan.instances).run())
                work.create_task(nemesis.run())
        finally:
            await clients.close()
        tell("all faults are over; waiting for due timers and deliveries")
        await _until_calm(sandbox, followed, operator)
    ended_at = time.time()
    await sandbox.cluster.stop()
    tell("reading the commits")
    await recorder.drain()
    for missed in nemesis.missed:
        tell(f"not injected: {missed}")
    async with sandbox.admin() as admin:
        pending = [Pending(*row) for row in await admin.fetch(LEFT)]
        received = await admin.fetch("select position from chaos_received order by number")
        undelivered = [row["timer_key"] for row in await admin.fetch(UNDELIVERED)]
        dead_letters = [row["timer_key"] for row in await admin.fetch(DEAD_LETTERS)]
        running = [row["instance_key"] for row in await admin.fetch(RUNNING)]
        open_tasks = [row["task_key"] for row in await admin.fetch(OPEN_TASKS)]
    return History(
        seed=plan.seed,
        began_at=began_at,
        ended_at=ended_at,
        bounds=bounds,
        calls=sorted(clients.calls + nemesis.calls, key=lambda call: call.began_at),
        commits=recorder.commits,
        reads=[
            *(Read("follower", position) for position in positions_in(followed)),
            *(Read("consumer", row["position"]) for row in received),
        ],
        faults=sorted(nemesis.faults, key=lambda fault: fault.began_at),
        pending=pending,
        poisoned=nemesis.poisoned,
        attempts=read_attempts(sandbox.directory),
        undelivered=undelivered,
        dead_letters=dead_letters,
        running=running,
        open_tasks=open_tasks,
    )


def read_attempts(directory: Path) -> list[HandlerCall]:
    """Read the calls that handlers recorded, ordered by time; empty if no handler was called.

    errors:  ValueError, TypeError  a line is incomplete; this means that the file was damaged, because each line is one
             write
    """
    file = directory / ATTEMPTS
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return sorted((HandlerCall(*json.loads(line)) for line in lines), key=lambda attempt: attempt.began_at)


@asynccontextmanager
async def _operated(operator: Operator) -> AsyncIterator[None]:
    """Redrive and discard dead letters while a block runs."""
    task = asyncio.create_task(operator.run())
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(end, asyncio.CancelledError), end


@asynccontextmanager
async def _frozen() -> AsyncIterator[None]:
    """Exclude the recorded objects from garbage collections, which would block the rig and all traffic."""

    async def work() -> None:
        while True:
            await asyncio.sleep(FREEZE_S)
            gc.freeze()

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def _watched(tell: Tell) -> AsyncIterator[None]:
    """Report each block of the rig itself, because a block explains delays."""

    async def work() -> None:
        awake = time.monotonic()
        while True:
            await asyncio.sleep(BLOCKED_S / 10)
            blocked_s = time.monotonic() - awake
            awake += blocked_s
            if blocked_s > BLOCKED_S:
                tell(f"{datetime.now(UTC):%H:%M:%S}: the rig itself was blocked for {blocked_s:.1f} s")

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


async def _until_calm(sandbox: Sandbox, followed: Path, operator: Operator) -> None:
    """Wait, up to a time limit, until timers and deliveries have ended and readers are at the end of the log."""

    async def calm() -> bool:
        async with sandbox.admin() as admin:
            if await admin.fetchval(PENDING):
                return False
            if not operator.has_done([row["timer_key"] for row in await admin.fetch(DEAD_LETTERS)]):
                return False
            records = await admin.fetchval("select count(*) from shardclock.command_log")
            received = await admin.fetchval("select count(*) from chaos_received")
        return bool(records == received == count_in(followed))

    await until(calm, within_s=CALM_S)
