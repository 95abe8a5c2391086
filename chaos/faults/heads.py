"""Kill and freeze processes on which all keepers of a cluster depend: Ray's head, a local host process, or `up`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection

import psutil

from chaos.faults.fault import Hit, Injection, NothingToBreak
from chaos.faults.processes import freeze, named, without_forks
from chaos.history.faults import WHOLE_S
from chaos.sandbox import Keeper, Sandbox
from chaos.waiting import until
from tests.support.local_cluster import FORK_SERVER, HOST
from tests.support.processes import kill, title


def lose_head(word: str) -> Injection:
    """Kill a process that the Ray cluster needs; wait until new shards have replaced its shards."""

    async def inject(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
        before = await sandbox.shards()
        victim = named(sandbox, chance, word)
        killed_at = time.time()
        kill([victim])

        async def whole() -> bool:
            return replaced(before, await sandbox.shards(), lambda it: not it.is_local)

        back = await until(whole, within_s=WHOLE_S)
        lost = [it.holder for it in before if not it.is_local]
        detail = {"process": word.strip(), "whole": back, "served": len(before), "lost": lost}
        return Hit(began_at=killed_at, detail=detail, whole_within_s=sandbox.cluster.whole_s)

    return inject


async def lose_local_host(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill the host of local keepers; wait until another host runs and other shards have replaced the lost shards.

    If the coordinator in Ray leads, the local host has no shards.
    """
    before = await sandbox.shards()
    victim = named(sandbox, chance, HOST)
    killed_at = time.time()
    kill([victim])

    async def whole() -> bool:
        is_back = any(it.pid != victim.pid for it in without_forks(sandbox.cluster.processes(HOST)))
        return is_back and replaced(before, await sandbox.shards(), lambda it: it.is_local)

    back = await until(whole, within_s=WHOLE_S)
    return Hit(began_at=killed_at, detail={"whole": back}, led=serve_locally(before))


async def freeze_local_host(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Freeze the host of local keepers; the keepers continue during the freeze."""
    before = await sandbox.shards()
    began_at = time.time()
    await freeze(sandbox, named(sandbox, chance, HOST), for_s=for_s)
    return Hit(began_at=began_at, led=serve_locally(before))


def serve_locally(shards: Collection[Keeper]) -> bool:
    """Return whether local shards have slots, which means that their coordinator leads."""
    return any(keeper.is_local for keeper in shards)


async def lose_up(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Kill `up`, start it again after a while, and wait until other shards have replaced its shards."""
    before = await sandbox.shards()
    killed_at = time.time()
    await sandbox.cluster.restart(for_s)

    async def whole() -> bool:
        return replaced(before, await sandbox.shards(), lambda _: True)

    return Hit(began_at=killed_at, detail={"whole": await until(whole, within_s=WHOLE_S)})


def replaced(before: Collection[Keeper], now: Collection[Keeper], is_lost: Callable[[Keeper], bool]) -> bool:
    """Return whether at least as many shards as before serve, and none of these is a lost shard."""
    lost = {keeper.holder for keeper in before if is_lost(keeper)}
    return len(now) >= len(before) and lost.isdisjoint(keeper.holder for keeper in now)


async def kill_fork_server(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill the fork server of the local keepers with -9; the keepers continue."""
    kill([fork_server(sandbox, chance)])
    return Hit()


async def freeze_fork_server(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Freeze the fork server of the local keepers, so that no keeper can start during the fault."""
    await freeze(sandbox, fork_server(sandbox, chance), for_s=for_s)
    return Hit()


def fork_server(sandbox: Sandbox, chance: random.Random) -> psutil.Process:
    """Find the fork server, as a child of the host.

    A search by command line would also find keepers, because keepers have the fork server's command line and survive
    their host.

    errors:  NothingToBreak  there is no fork server
    """
    host = named(sandbox, chance, HOST)
    found = [child for child in host.children() if FORK_SERVER in title(child)]
    if not found:
        raise NothingToBreak("no fork server")
    return found[0]
