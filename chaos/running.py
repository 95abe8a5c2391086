"""One run: let clients and nemesis loose on a stage, wait until all has come back, and collect the history."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from chaos.away import until
from chaos.clients import Clients
from chaos.history import Attempt, Bounds, History, Pending, Read
from chaos.letters import Operator
from chaos.load import Load
from chaos.nemesis import Nemesis
from chaos.plan import Plan
from chaos.process_load import ProcessLoad, deploy_all
from chaos.readers import count_in, positions_in, reading
from chaos.recorder import Recorder
from chaos.stage import Stage
from tests.support.roles import as_role

FREEZE_S = 2.0
STILL_S = 0.5  # how long the rig may stand still before it says so: it holds up all traffic meanwhile
CALM_S = 90.0  # for what is due to fire, and for the readers to come to the end, after the last fault
LEFT = """
    select timer_key, due_date, paused_due_date is not null as paused from shardclock.timers order by timer_key
"""
# What a client scheduled while the database's clock was ahead may be due in an hour: nobody waits for that.
PENDING = """
    select exists (select from shardclock.timers where due_date < now() + interval '1 min')
        or exists (select from shardclock.deliveries)
        or exists (select from shardclock.instances where ended_at is null)
"""
RUNNING = "select instance_key from shardclock.instances where ended_at is null order by instance_key"
OPEN_TASKS = "select task_key from shardclock.tasks order by task_key"
UNDELIVERED = "select timer_key from shardclock.deliveries order by timer_key"
DEAD_LETTERS = "select timer_key from shardclock.dead_letters order by timer_key"
ATTEMPTS = "attempts.ndjson"  # where `app` writes

Tell = Callable[[str], None]


async def run(plan: Plan, stage: Stage, *, bounds: Bounds, tell: Tell) -> History:
    """Do a whole run, and give all that was recorded."""
    recorder, clients, nemesis = (
        Recorder(stage.direct_dsn),
        Clients(as_role(stage.dsn, "scheduler")),
        Nemesis(stage, plan),
    )
    await recorder.start()
    if plan.begins:
        await deploy_all(as_role(stage.direct_dsn, "scheduler"))
    tell(f"starting the cluster ({stage.cluster.name})")
    await stage.cluster.start(as_role(stage.dsn, "shard"), stage.direct_dsn)
    began_at = time.time()
    operator = Operator(as_role(stage.dsn, "shard"))
    async with reading(stage) as followed, _operated(operator), _frozen(), _watched(tell):
        tell(f"{plan.length_s:.0f} s of load, {len(plan.breaks)} faults, seed {plan.seed}")
        try:
            async with asyncio.TaskGroup() as work:
                work.create_task(Load(clients, plan).run())
                work.create_task(ProcessLoad(clients, plan.begins).run())
                work.create_task(nemesis.run())
        finally:
            await clients.close()
        tell("all is mended; waiting for what is due to fire, and to be delivered")
        await _until_calm(stage, followed, operator)
    ended_at = time.time()
    await stage.cluster.stop()
    tell("reading what was committed")
    await recorder.drain()
    for missed in nemesis.missed:
        tell(f"not broken: {missed}")
    async with stage.admin() as admin:
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
        attempts=read_attempts(stage.place),
        undelivered=undelivered,
        dead_letters=dead_letters,
        running=running,
        open_tasks=open_tasks,
    )


def read_attempts(place: Path) -> list[Attempt]:
    """Read what handlers wrote down, by moment; nothing if none was called.

    errors:  ValueError, TypeError  a line is not whole: handlers write each at once, so the file was damaged
    """
    file = place / ATTEMPTS
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return sorted((Attempt(*json.loads(line)) for line in lines), key=lambda attempt: attempt.began_at)


@asynccontextmanager
async def _operated(operator: Operator) -> AsyncIterator[None]:
    """Let somebody look through the dead letters meanwhile."""
    task = asyncio.create_task(operator.run())
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(end, asyncio.CancelledError), end


@asynccontextmanager
async def _frozen() -> AsyncIterator[None]:
    """Keep what is recorded from the collector: to look through all of it for garbage holds up everybody's traffic."""

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
    """Tell when the rig itself stood still, and so whose fault a delay was."""

    async def work() -> None:
        awake = time.monotonic()
        while True:
            await asyncio.sleep(STILL_S / 10)
            still_s = time.monotonic() - awake
            awake += still_s
            if still_s > STILL_S:
                tell(f"{datetime.now(UTC):%H:%M:%S}: the rig itself stood still for {still_s:.1f} s")

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


async def _until_calm(stage: Stage, followed: Path, operator: Operator) -> None:
    """Wait until timers and deliveries have ended and readers are at the log's end; bounded, the checker judges."""

    async def calm() -> bool:
        async with stage.admin() as admin:
            if await admin.fetchval(PENDING):
                return False
            if not operator.has_done([row["timer_key"] for row in await admin.fetch(DEAD_LETTERS)]):
                return False
            records = await admin.fetchval("select count(*) from shardclock.command_log")
            received = await admin.fetchval("select count(*) from chaos_received")
        return bool(records == received == count_in(followed))

    await until(calm, within_s=CALM_S)
