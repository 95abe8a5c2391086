"""Hosts cut off: from all others or from one, in one direction, again and again. It needs `chaos.hosts`."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from chaos.away import until
from chaos.faults.fault import Act, FaultType, Hit, NothingToBreak
from chaos.hosts import COORDINATOR, HEAD, STORE, WORKERS, Hosts
from chaos.network import Network, both_ways
from chaos.stage import Stage
from tests.support.processes import kill

WHOLE_S = 60.0
FLAP_S = 0.5
Ways = Sequence[tuple[str, str]]
WaysOf = Callable[[str], Ways]


def cut(ways_of: WaysOf) -> Act:
    """Drop what goes some ways from or to a host for a while: the host of the shard that has served for longest."""

    async def act(stage: Stage, _: random.Random, for_s: float) -> Hit:
        hosts, host = _hosts(stage), await _eldest(stage)
        ways = ways_of(host)
        victims = await _losing_postgres(stage, ways)
        began_at = time.time()
        async with _cut(hosts.network, ways):
            await asyncio.sleep(for_s)
        return Hit(victims, began_at=began_at, detail={"host": host})

    return act


def flap(ways_of: WaysOf) -> Act:
    """Drop it for half of each second of a while: too short to be silence."""

    async def act(stage: Stage, _: random.Random, for_s: float) -> Hit:
        hosts, host = _hosts(stage), await _eldest(stage)
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            async with _cut(hosts.network, ways_of(host)):
                await asyncio.sleep(FLAP_S)
            await asyncio.sleep(FLAP_S)
        return Hit(detail={"host": host})

    return act


def cut_and_kill_coordinator(ways_of: WaysOf) -> Act:
    """Drop it, and kill the coordinator meanwhile; `detail` names the hosts that have one at the end."""

    async def act(stage: Stage, _: random.Random, for_s: float) -> Hit:
        hosts, host = _hosts(stage), await _eldest(stage)
        victims = await _losing_postgres(stage, ways_of(host))
        began_at = time.time()
        async with _cut(hosts.network, ways_of(host)):
            kill(hosts.processes(COORDINATOR))
            await asyncio.sleep(for_s)
            found = [hosts.network.host_of(it.pid) for it in hosts.processes(COORDINATOR)]
        return Hit(victims, began_at=began_at, detail={"host": host, "coordinators": found})

    return act


def once_whole(act: Act) -> Act:
    """Wait, before something is broken, until all shards serve, each on another host."""

    async def wait_and_act(stage: Stage, chance: random.Random, for_s: float) -> Hit:
        hosts = _hosts(stage)
        if not await until(hosts.is_whole, within_s=WHOLE_S):
            raise NothingToBreak(f"not whole within {WHOLE_S:.0f} s: shards on {await hosts.serving()}")
        return await act(stage, chance, for_s)

    return wait_and_act


async def _eldest(stage: Stage) -> str:
    serving = await _hosts(stage).serving()
    if not serving:
        raise NothingToBreak("no shard serves")
    return serving[0]


async def _losing_postgres(stage: Stage, ways: Ways) -> tuple[int, ...]:
    """Find the shards that lose Postgres when nothing goes these ways."""
    network = _hosts(stage).network
    lost = {host for way in ways if STORE in way for host in way} - {STORE}
    return tuple(it.holder for it in await stage.shards() if network.host_of(it.pid) in lost)


@asynccontextmanager
async def _cut(network: Network, ways: Ways) -> AsyncIterator[None]:
    await asyncio.to_thread(network.cut, *ways)
    try:
        yield
    finally:
        await asyncio.to_thread(network.mend, *ways)


def _hosts(stage: Stage) -> Hosts:
    assert isinstance(stage.cluster, Hosts), f"{stage.cluster.name} is on one host"
    return stage.cluster


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
