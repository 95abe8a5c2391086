"""Kill, freeze and cut off engines.

Timers fire without engines, so an engine does not count as a victim; only instances wait.
"""

from __future__ import annotations

import asyncio
import random
import signal

import psutil

from chaos.faults.fault import Hit
from chaos.faults.processes import CATCH_S, END, trapped
from chaos.sandbox import Sandbox
from chaos.waiting import until

STEP = "apply_steps"
STOPPED_S = 2.0


async def kill_engine(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill an engine with -9 at any moment."""
    keeper = chance.choice(await sandbox.engines())
    sandbox.send(keeper.pid, signal.SIGKILL)
    return Hit(detail={"engine": keeper.holder})


async def kill_engine_in_step(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill an engine with -9 while Postgres executes its write."""
    keeper = chance.choice(await sandbox.engines())
    began_at, exact = await trapped(sandbox, keeper, (STEP, "inside"), signal.SIGKILL, for_s=0.0)
    return Hit(began_at=began_at, detail={"engine": keeper.holder, "exact": exact})


async def freeze_engine(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Freeze an engine between the advance of instances in memory and their write to Postgres."""
    keeper = chance.choice(await sandbox.engines())
    began_at, exact = await trapped(sandbox, keeper, (STEP, "before"), signal.SIGSTOP, for_s=for_s)
    return Hit(began_at=began_at, detail={"engine": keeper.holder, "exact": exact, "for_s": round(for_s, 1)})


async def replace_frozen_engine(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Freeze an engine before a write, declare it dead while its successor works, and let it continue."""
    keeper = chance.choice(await sandbox.engines())
    await sandbox.cluster.start_successor(keeper.holder)
    await asyncio.sleep(for_s)
    frozen = asyncio.create_task(
        trapped(sandbox, keeper, (STEP, "before"), signal.SIGSTOP, for_s=min(for_s, STOPPED_S)), name="frozen engine"
    )

    async def stopped() -> bool:
        return psutil.Process(keeper.pid).status() == psutil.STATUS_STOPPED

    try:
        await until(stopped, within_s=2 * CATCH_S)
        async with sandbox.admin() as admin:
            await admin.execute(END, keeper.holder)
    finally:
        began_at, exact = await frozen
    return Hit(began_at=began_at, detail={"engine": keeper.holder, "exact": exact})


async def cut_engine(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Reset an engine's connections, and refuse new connections for a while."""
    keeper = chance.choice(await sandbox.engines())
    await sandbox.proxy.cut(keeper.owns, for_s=for_s)
    return Hit(detail={"engine": keeper.holder})


async def lose_step_reply(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Lose the answer to committed steps."""
    keeper = chance.choice(await sandbox.engines())
    sandbox.proxy.lose_reply(keeper.owns, STEP)
    return Hit(detail={"engine": keeper.holder})
