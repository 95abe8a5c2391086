"""Kill and freeze workers and their child processes.

Timers fire without workers, so a worker does not count as a victim.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time

from chaos.faults.fault import Hit, NothingToBreak
from chaos.faults.processes import END
from chaos.sandbox import Sandbox
from tests.support.processes import kill

HANDLERS = ("HandlerActor", "shardclock.executor handler")  # The names of handler processes with Ray and without Ray.
RUNS = "RunActor"
# The freeze is shorter than a slow handler's call. So the successor still has the worker's claims when the freeze ends.
STOPPED_S = 2.0


async def kill_worker(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill a worker with -9 at any moment."""
    keeper = chance.choice(await sandbox.workers())
    sandbox.send(keeper.pid, signal.SIGKILL)
    return Hit(detail={"worker": keeper.holder})


async def kill_handler(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill the process of a handler with -9, during its calls or between calls."""
    found = [process for word in HANDLERS for process in sandbox.cluster.processes(word)]
    if not found:
        raise NothingToBreak("no handler has a process")
    kill([chance.choice(found)])
    return Hit()


async def kill_run(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill a process for job runs with -9, during a run or between runs."""
    found = sandbox.cluster.processes(RUNS)
    if not found:
        raise NothingToBreak("no run has a process")
    kill([chance.choice(found)])
    return Hit()


async def freeze_worker(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Freeze a worker for a while; its handlers continue during the freeze."""
    keeper = chance.choice(await sandbox.workers())
    sandbox.send(keeper.pid, signal.SIGSTOP)
    began_at = time.time()
    try:
        await asyncio.sleep(for_s)
    finally:
        sandbox.go_on(keeper.pid)
    return Hit(began_at=began_at, detail={"worker": keeper.holder, "for_s": round(for_s, 1)})


async def replace_frozen_worker(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Freeze a worker, declare the worker dead while its successor works, and let the worker continue."""
    keeper = chance.choice(await sandbox.workers())
    await sandbox.cluster.start_successor(keeper.holder)
    sandbox.send(keeper.pid, signal.SIGSTOP)
    began_at = time.time()
    try:
        async with sandbox.admin() as admin:
            await admin.execute(END, keeper.holder)
        await asyncio.sleep(min(for_s, STOPPED_S))
    finally:
        sandbox.go_on(keeper.pid)
    return Hit(began_at=began_at, detail={"worker": keeper.holder})
