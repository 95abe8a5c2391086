"""Processes of the cluster, killed or stopped: wherever they are, or at a certain place of their work."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from chaos.away import until
from chaos.faults.fault import BACK_S, Act, Hit, NothingToBreak
from chaos.proxy import Link, Moment
from chaos.stage import Place, Stage
from tests.support.processes import kill

END = """
    update shardclock.holders
    set ended_at = now(), ended_why = 'dead', part = null, part_count = null
    where holder = $1
"""
CATCH_S = 4.0  # for a trap to be walked into; a shard that has nothing to fire is hit as it is


async def kill_shard(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill a shard with -9, wherever it is."""
    place = chance.choice(await stage.shards())
    stage.send(place.pid, signal.SIGKILL)
    return Hit((place.holder,))


def kill_shard_at(statement: str, moment: Moment) -> Act:
    """Kill a shard with -9 at a certain place of its work."""

    async def act(stage: Stage, chance: random.Random, _: float) -> Hit:
        place = chance.choice(await stage.shards())
        began_at, exact = await trapped(stage, place, (statement, moment), signal.SIGKILL, for_s=0.0)
        return Hit((place.holder,), began_at, detail={"exact": exact})

    return act


def kill_process(word: str) -> Act:
    """Kill one of the cluster's processes with -9, by a word of its command line."""

    async def act(stage: Stage, chance: random.Random, _: float) -> Hit:
        found = without_forks(stage.cluster.processes(word))
        if not found:
            raise NothingToBreak(f"no process {word!r}")
        victim = chance.choice(found)
        kill([victim])
        return Hit(detail={"process": word.strip()})

    return act


def without_forks(found: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Leave out children: between its fork and its exec a new worker looks like the raylet that starts it."""
    pids = {process.pid for process in found}
    kept = []
    for process in found:
        with suppress(psutil.Error):
            if process.ppid() not in pids:
                kept.append(process)
    return kept


def lose_head(word: str) -> Act:
    """Kill a process without which this Ray can't be; wait until the shards of the next one serve."""
    kill = kill_process(word)

    async def act(stage: Stage, chance: random.Random, for_s: float) -> Hit:
        before = {place.holder for place in await stage.shards()}
        killed_at = time.time()
        hit = await kill(stage, chance, for_s)

        async def whole() -> bool:
            now = {place.holder for place in await stage.shards()}
            return len(now) >= len(before) and not now & before

        back = await until(whole, within_s=3 * BACK_S)
        return Hit(began_at=killed_at, detail={**hit.detail, "whole": back})

    return act


def freeze_shard_at(statement: str, moment: Moment) -> Act:
    """Stop a shard at a certain place of its work, and let it go on after a while."""

    async def act(stage: Stage, chance: random.Random, for_s: float) -> Hit:
        place = chance.choice(await stage.shards())
        began_at, exact = await trapped(stage, place, (statement, moment), signal.SIGSTOP, for_s=for_s)
        return Hit((place.holder,), began_at, detail={"exact": exact, "for_s": round(for_s, 1)})

    return act


async def trapped(
    stage: Stage, place: Place, where: tuple[str, Moment], number: signal.Signals, *, for_s: float
) -> tuple[float, bool]:
    """Send a keeper a signal at a place of its work, and hold its connection there; when that was, and if there."""

    def spring(link: Link) -> None:
        stage.send(place.pid, number)
        if number == signal.SIGKILL:
            link.close()  # what it had not said yet, nobody hears

    trap = stage.proxy.trap(place.owns, *where, spring=spring)
    try:
        try:
            async with asyncio.timeout(CATCH_S):
                await asyncio.shield(trap.caught)
            exact = True
        except TimeoutError:
            exact = False
            stage.send(place.pid, number)
        began_at = time.time()
        await asyncio.sleep(for_s)
    finally:
        stage.go_on(place.pid)
        stage.proxy.lift(trap)
    return began_at, exact


async def declare_dead(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """End a shard that goes on firing, for it doesn't hear of it, while its stand-in claims what it holds: a zombie."""
    place = chance.choice(await stage.shards())
    await stage.cluster.stand_in(place.holder)
    deaf = asyncio.create_task(
        stage.proxy.half_open(lambda link: " beats " in link.application and place.owns(link), for_s=for_s)
    )
    began_at = time.time()
    async with stage.admin() as admin:
        await admin.execute(END, place.holder)
    await deaf
    return Hit((place.holder,), began_at)


async def jump_clock(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Put a shard's own clock ahead, as it is when a machine has slept: it will believe that timers are due."""
    place = chance.choice(await stage.shards())
    stage.send(place.pid, signal.SIGUSR1)
    return Hit(detail={"holder": place.holder})


def freeze_process(word: str) -> Act:
    """Stop one of the cluster's processes, and let it go on after a while."""

    async def act(stage: Stage, chance: random.Random, for_s: float) -> Hit:
        found = without_forks(stage.cluster.processes(word))
        if not found:
            raise NothingToBreak(f"no process {word!r}")
        victim = chance.choice(found)
        victim.suspend()
        try:
            await asyncio.sleep(for_s)
        finally:
            stage.go_on(victim.pid)
        return Hit(detail={"process": word.strip()})

    return act
