"""Separate a host of a network from one other host or from all, in one or both directions, once or repeatedly.

The cluster must be a `MultiHostCluster`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from chaos.faults.fault import FaultType, Hit, Injection, NothingToBreak
from chaos.multi_host import COORDINATOR, HEAD, STORE, WORKERS, MultiHostCluster
from chaos.network import Network, both_ways
from chaos.sandbox import Sandbox
from chaos.waiting import until
from tests.support.processes import kill

WHOLE_S = 60.0
FLAP_S = 0.5
Ways = Sequence[tuple[str, str]]
WaysOf = Callable[[str], Ways]


def cut(ways_of: WaysOf) -> Injection:
    """Drop the packets in some directions for a while; the affected host has the oldest serving shard."""

    async def inject(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
        hosts, host = _hosts(sandbox), await _eldest(sandbox)
        ways = ways_of(host)
        victims = await _losing_postgres(sandbox, ways)
        began_at = time.time()
        async with _cut(hosts.network, ways):
            await asyncio.sleep(for_s)
        return Hit(victims, began_at=began_at, detail={"host": host})

    return inject


def flap(ways_of: WaysOf) -> Injection:
    """Drop the packets for half of each second; each interruption is too short to count as the loss of the host."""

    async def inject(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
        hosts, host = _hosts(sandbox), await _eldest(sandbox)
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            async with _cut(hosts.network, ways_of(host)):
                await asyncio.sleep(FLAP_S)
            await asyncio.sleep(FLAP_S)
        return Hit(detail={"host": host})

    return inject


def cut_and_kill_coordinator(ways_of: WaysOf) -> Injection:
    """Drop the packets and kill the coordinator.

    At the end of the fault, `detail` names the hosts that have a coordinator.
    """

    async def inject(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
        hosts, host = _hosts(sandbox), await _eldest(sandbox)
        victims = await _losing_postgres(sandbox, ways_of(host))
        began_at = time.time()
        async with _cut(hosts.network, ways_of(host)):
            kill(hosts.processes(COORDINATOR))
            await asyncio.sleep(for_s)
            found = [hosts.network.host_of(it.pid) for it in hosts.processes(COORDINATOR)]
        return Hit(victims, began_at=began_at, detail={"host": host, "coordinators": found})

    return inject


def once_whole(inject: Injection) -> Injection:
    """Wait until all shards serve on different hosts, then inject the fault."""

    async def wait_and_inject(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
        hosts = _hosts(sandbox)
        if not await until(hosts.is_whole, within_s=WHOLE_S):
            raise NothingToBreak(f"not all shards serve within {WHOLE_S:.0f} s: shards on {await hosts.serving()}")
        return await inject(sandbox, chance, for_s)

    return wait_and_inject


async def _eldest(sandbox: Sandbox) -> str:
    serving = await _hosts(sandbox).serving()
    if not serving:
        raise NothingToBreak("no shard serves")
    return serving[0]


async def _losing_postgres(sandbox: Sandbox, ways: Ways) -> tuple[int, ...]:
    """Find the shards that lose the connection to Postgres if packets in these directions are dropped."""
    network = _hosts(sandbox).network
    lost = {host for way in ways if STORE in way for host in way} - {STORE}
    return tuple(it.holder for it in await sandbox.shards() if network.host_of(it.pid) in lost)


@asynccontextmanager
async def _cut(network: Network, ways: Ways) -> AsyncIterator[None]:
    await asyncio.to_thread(network.cut, *ways)
    try:
        yield
    finally:
        await asyncio.to_thread(network.mend, *ways)


def _hosts(sandbox: Sandbox) -> MultiHostCluster:
    assert isinstance(sandbox.cluster, MultiHostCluster), f"{sandbox.cluster.name} is on one host"
    return sandbox.cluster


def _all(host: str) -> Ways:
    return both_ways(host, *({HEAD, STORE, *WORKERS} - {host}))


def _other_workers(host: str) -> Ways:
    return both_ways(host, *(set(WORKERS) - {host}))


def _postgres(host: str) -> Ways:
    return both_ways(host, STORE)


PARTITIONS = tuple(
    replace(it, only="hosts")
    for it in (
        FaultType("cut a host off", "cut", cut(_all), takeover=True),
        FaultType("cut a host off from Postgres", "cut", cut(_postgres), takeover=True),
        FaultType(
            "let Postgres hear nothing of a host", "cut", once_whole(cut(lambda host: [(host, STORE)])), takeover=True
        ),
        FaultType(
            "let a host hear nothing of Postgres", "cut", once_whole(cut(lambda host: [(STORE, host)])), takeover=True
        ),
        FaultType(
            "cut a host off from Ray's head", "cut", once_whole(cut(lambda host: both_ways(host, HEAD))), disturbs=False
        ),
        FaultType("cut a host off from the other workers", "cut", once_whole(cut(_other_workers)), disturbs=False),
        FaultType(
            "cut the coordinator off from Postgres",
            "cut",
            once_whole(cut(lambda _: both_ways(HEAD, STORE))),
            disturbs=False,
            leaderless=True,
        ),
        FaultType("let a host's link flap", "cut", once_whole(flap(_all))),
        FaultType(
            "cut a host off and kill the coordinator",
            "cut",
            once_whole(cut_and_kill_coordinator(_all)),
            takeover=True,
            leaderless=True,
        ),
    )
)
