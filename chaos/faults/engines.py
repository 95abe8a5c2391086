"""Engines, killed, stopped or cut off. No timer fires later for it, so none is a victim: instances wait."""

from __future__ import annotations

import asyncio
import random
import signal

import psutil

from chaos.away import until
from chaos.faults.fault import Hit
from chaos.faults.processes import CATCH_S, END, trapped
from chaos.stage import Stage

STEP = "apply_steps"
STOPPED_S = 2.0


async def kill_engine(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill an engine with -9, wherever it is."""
    place = chance.choice(await stage.engines())
    stage.send(place.pid, signal.SIGKILL)
    return Hit(detail={"engine": place.holder})


async def kill_engine_in_step(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill an engine with -9 while Postgres writes what it has sent."""
    place = chance.choice(await stage.engines())
    began_at, exact = await trapped(stage, place, (STEP, "inside"), signal.SIGKILL, for_s=0.0)
    return Hit(began_at=began_at, detail={"engine": place.holder, "exact": exact})


async def freeze_engine(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Stop an engine that has advanced instances in memory before it writes them, and let it go on after a while."""
    place = chance.choice(await stage.engines())
    began_at, exact = await trapped(stage, place, (STEP, "before"), signal.SIGSTOP, for_s=for_s)
    return Hit(began_at=began_at, detail={"engine": place.holder, "exact": exact, "for_s": round(for_s, 1)})


async def replace_frozen_engine(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Give an engine a successor, which takes the same signals; then stop it before it writes, and declare it dead.

    For a while both advance the same instances, as they may while slots change hands; then one is a zombie.
    """
    place = chance.choice(await stage.engines())
    await stage.cluster.stand_in(place.holder)
    await asyncio.sleep(for_s)
    frozen = asyncio.create_task(
        trapped(stage, place, (STEP, "before"), signal.SIGSTOP, for_s=min(for_s, STOPPED_S)), name="frozen engine"
    )

    async def stopped() -> bool:
        return psutil.Process(place.pid).status() == psutil.STATUS_STOPPED

    try:
        await until(stopped, within_s=2 * CATCH_S)
        async with stage.admin() as admin:
            await admin.execute(END, place.holder)
    finally:
        began_at, exact = await frozen
    return Hit(began_at=began_at, detail={"engine": place.holder, "exact": exact})


async def cut_engine(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Break an engine's connections off, and refuse it new ones for a while."""
    place = chance.choice(await stage.engines())
    await stage.proxy.cut(place.owns, for_s=for_s)
    return Hit(detail={"engine": place.holder})


async def lose_step_reply(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Lose the answer to steps that have been committed."""
    place = chance.choice(await stage.engines())
    stage.proxy.lose_reply(place.owns, STEP)
    return Hit(detail={"engine": place.holder})
