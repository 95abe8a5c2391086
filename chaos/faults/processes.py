"""Kill and freeze processes of the cluster, at a random moment or at a chosen statement."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from chaos.faults.fault import Hit, Injection, NothingToBreak
from chaos.proxy import Moment, ProxiedConnection
from chaos.sandbox import Keeper, Sandbox
from tests.support.processes import kill

END = """
    update shardclock.holders
    set ended_at = now(), ended_why = 'dead', part = null, part_count = null
    where holder = $1
"""
# The time limit of the wait for a statement. A shard without due timers does not send the statement; after this time
# limit, the fault affects the shard at another moment.
CATCH_S = 4.0


async def kill_shard(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill a shard with -9 at any moment."""
    keeper = chance.choice(await sandbox.shards())
    began_at = time.time()
    sandbox.send(keeper.pid, signal.SIGKILL)
    return Hit((keeper.holder,), began_at)


def kill_shard_at(statement: str, moment: Moment) -> Injection:
    """Kill a shard with -9 before, during or after a statement."""

    async def inject(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
        keeper = chance.choice(await sandbox.shards())
        began_at, exact = await trapped(sandbox, keeper, (statement, moment), signal.SIGKILL, for_s=0.0)
        return Hit((keeper.holder,), began_at, detail={"exact": exact})

    return inject


def kill_process(word: str) -> Injection:
    """Kill one of the cluster's processes with -9; a word in its command line identifies the process."""

    async def inject(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
        kill([named(sandbox, chance, word)])
        return Hit(detail={"process": word.strip()})

    return inject


def named(sandbox: Sandbox, chance: random.Random, word: str) -> psutil.Process:
    """Choose one of the cluster's processes with a word in its command line.

    errors:  NothingToBreak  no process has this word
    """
    found = without_forks(sandbox.cluster.processes(word))
    if not found:
        raise NothingToBreak(f"no process {word!r}")
    return chance.choice(found)


def without_forks(found: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Omit child processes: a new Ray worker has the command line of its raylet at first."""
    pids = {process.pid for process in found}
    kept = []
    for process in found:
        with suppress(psutil.Error):
            if process.ppid() not in pids:
                kept.append(process)
    return kept


def freeze_shard_at(statement: str, moment: Moment) -> Injection:
    """Freeze a shard for a while, before, during or after a statement."""

    async def inject(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
        keeper = chance.choice(await sandbox.shards())
        began_at, exact = await trapped(sandbox, keeper, (statement, moment), signal.SIGSTOP, for_s=for_s)
        return Hit((keeper.holder,), began_at, detail={"exact": exact, "for_s": round(for_s, 1)})

    return inject


async def trapped(
    sandbox: Sandbox, keeper: Keeper, where: tuple[str, Moment], number: signal.Signals, *, for_s: float
) -> tuple[float, bool]:
    """Send a signal to a keeper before, during or after a statement, and hold the keeper's connection at this point.

    shape:   the time of the signal, and whether the keeper had reached the statement
    """

    def spring(link: ProxiedConnection) -> None:
        sandbox.send(keeper.pid, number)
        if number == signal.SIGKILL:
            link.close()  # The server must not receive the rest of the statement.

    trap = sandbox.proxy.trap(keeper.owns, *where, spring=spring)
    try:
        try:
            async with asyncio.timeout(CATCH_S):
                await asyncio.shield(trap.caught)
            exact = True
        except TimeoutError:
            exact = False
            sandbox.send(keeper.pid, number)
        began_at = time.time()
        await asyncio.sleep(for_s)
    finally:
        sandbox.go_on(keeper.pid)
        sandbox.proxy.lift(trap)
    return began_at, exact


async def declare_dead(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Declare a running shard dead; the shard continues to fire while its successor claims its timers."""
    keeper = chance.choice(await sandbox.shards())
    await sandbox.cluster.start_successor(keeper.holder)
    deaf = asyncio.create_task(
        sandbox.proxy.half_open(lambda link: " beats " in link.application and keeper.owns(link), for_s=for_s)
    )
    began_at = time.time()
    async with sandbox.admin() as admin:
        await admin.execute(END, keeper.holder)
    await deaf
    return Hit((keeper.holder,), began_at)


async def jump_clock(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Set a shard's clock ahead, so that timers seem to be due, as when a suspended machine wakes up."""
    keeper = chance.choice(await sandbox.shards())
    sandbox.send(keeper.pid, signal.SIGUSR1)
    return Hit(detail={"holder": keeper.holder})


def freeze_process(word: str) -> Injection:
    """Freeze one of the cluster's processes for a while."""

    async def inject(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
        await freeze(sandbox, named(sandbox, chance, word), for_s=for_s)
        return Hit(detail={"process": word.strip()})

    return inject


async def freeze(sandbox: Sandbox, victim: psutil.Process, *, for_s: float) -> None:
    """Freeze a process for a while."""
    victim.suspend()
    try:
        await asyncio.sleep(for_s)
    finally:
        sandbox.go_on(victim.pid)
