"""Workers and the processes below them, killed or stopped. No timer fires later for it, so none is a victim."""

from __future__ import annotations

import asyncio
import random
import signal
import time

from chaos.faults.fault import Hit, NothingToBreak
from chaos.faults.processes import END
from chaos.stage import Stage
from tests.support.processes import kill

HANDLERS = ("HandlerActor", "shardclock.executor handler")  # on Ray, and without
RUNS = "RunActor"
STOPPED_S = 2.0  # less than a slow handler takes: the successor must still have in hand what it took over


async def kill_worker(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill a worker with -9, wherever it is."""
    place = chance.choice(await stage.workers())
    stage.send(place.pid, signal.SIGKILL)
    return Hit(detail={"worker": place.holder})


async def kill_handler(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill the process of a handler with -9, whatever calls are in it."""
    found = [process for word in HANDLERS for process in stage.cluster.processes(word)]
    if not found:
        raise NothingToBreak("no handler has a process")
    kill([chance.choice(found)])
    return Hit()


async def kill_run(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill a process in which runs of jobs are made with -9, whether one is being made or not."""
    found = stage.cluster.processes(RUNS)
    if not found:
        raise NothingToBreak("no run has a process")
    kill([chance.choice(found)])
    return Hit()


async def freeze_worker(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Stop a worker, and let it go on after a while; its handlers go on all the time."""
    place = chance.choice(await stage.workers())
    stage.send(place.pid, signal.SIGSTOP)
    began_at = time.time()
    try:
        await asyncio.sleep(for_s)
    finally:
        stage.go_on(place.pid)
    return Hit(began_at=began_at, detail={"worker": place.holder, "for_s": round(for_s, 1)})


async def replace_frozen_worker(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Stop a worker, declare it dead while its successor is at work, and let it go on."""
    place = chance.choice(await stage.workers())
    await stage.cluster.stand_in(place.holder)
    stage.send(place.pid, signal.SIGSTOP)
    began_at = time.time()
    try:
        async with stage.admin() as admin:
            await admin.execute(END, place.holder)
        await asyncio.sleep(min(for_s, STOPPED_S))
    finally:
        stage.go_on(place.pid)
    return Hit(began_at=began_at, detail={"worker": place.holder})
