"""What fires, delivers and advances, in two kinds: keepers as plain processes, and all of `shardclock up`."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import psutil

from chaos.away import AWAY, LOOK_S, connected, until
from chaos.history import ALONE_S
from chaos.kept import Kept
from chaos.workers import Workers
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER
from tests.support.cluster_process import ClusterProcess
from tests.support.engine_process import EngineProcess
from tests.support.factories import add_holder
from tests.support.shard_pool import incarnation
from tests.support.shard_process import ShardProcess

START_S = 60.0
LED_S = 2.0  # a takeover that a coordinator makes
APP = "chaos_app"
WORKERS = 2  # what a new database wants
WANT_ENGINES = "update shardclock.scale set wanted = $1 where role = 'engine'"
SERVING = "select from shardclock.presence where role = $1 and part is not null and seen_at > started_at"


class Cluster(Protocol):
    """What fires: started on a DSN, and tended until it is stopped."""

    name: str
    takeover_s: float

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Bring it up, and wait until its shards and workers serve."""

    async def stop(self) -> None:
        """End it in order."""

    def processes(self, word: str) -> list[psutil.Process]:
        """Find its processes with a word in their command lines."""

    async def stand_in(self, holder: int) -> None:
        """Start another keeper for the slots of one that is there, and wait until it is at work."""


class Processes:
    """Shards as plain processes: no Ray and no coordinator, so only leases, the sweep and the fence are at work.

    One that has died is started anew after a while, as a supervisor would; until then the others must do. With
    `workers` and `engines` there are so many of these beside them.
    """

    name = "processes"

    def __init__(
        self,
        shards: int = 2,
        *,
        workers: int = 0,
        engines: int = 0,
        restart_s: float = 14.0,
        build: Path | None = None,
        log: IO[bytes] | None = None,
        **tuning: Any,
    ) -> None:
        self.takeover_s = ALONE_S
        self._shards, self._restart_s, self._tuning = shards, restart_s, tuning
        self._build, self._log = build, log
        self._running: dict[int, ShardProcess] = {}
        self._zombies: list[ShardProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._workers_count, self._workers = workers, Workers(workers, build=build, log=log)
        self._engines_count, self._engines = engines, Kept(ENGINE, engines, self._spawn_engine)
        self._dsn = self._direct_dsn = ""

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Start all keepers, each with its assignment."""
        self._dsn, self._direct_dsn = dsn, direct_dsn
        for shard in range(self._shards):
            await self._start(shard)
        await self._workers.start(dsn, direct_dsn)
        await self._engines.start(direct_dsn)
        await until_serving(direct_dsn, self._shards)
        await until_serving(direct_dsn, self._workers_count, role=WORKER)
        await until_serving(direct_dsn, self._engines_count, role=ENGINE)
        self._tasks.append(asyncio.create_task(self._keep()))

    async def stop(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        for process in [*self._running.values(), *self._zombies]:
            process.kill()
        self._workers.stop()
        self._engines.stop()

    def processes(self, word: str) -> list[psutil.Process]:
        """Find handlers' processes: there is nothing else here but keepers."""
        return self._workers.processes(word)

    async def stand_in(self, holder: int) -> None:
        """Start another shard for the slots of one that is there; if that dies, nobody else takes its place.

        A worker's or an engine's successor is started anew if it dies, as any of these.
        """
        if self._engines.keeps(holder):
            await self._engines.stand_in(holder)
            return
        if self._workers.keeps(holder):
            await self._workers.stand_in(holder)
            return
        shard = next((shard for shard, process in self._running.items() if process.holder == holder), None)
        if shard is None:
            raise LookupError(f"holder {holder:x} has just ended")
        self._zombies.append(self._running.pop(shard))
        await self._start(shard)
        await until_serving(self._direct_dsn, self._shards + 1)

    def _spawn_engine(self, holder: int) -> EngineProcess:
        return EngineProcess(holder, EngineSettings(), self._dsn, build=self._build, log=self._log)

    async def _start(self, shard: int) -> None:
        holder = incarnation().holder
        await add_holder(self._direct_dsn, holder, shard, self._shards)
        settings = ShardSettings(**self._tuning)
        process = ShardProcess(holder, settings, self._dsn, build=self._build, log=self._log)
        async with connected(self._direct_dsn) as admin:
            await admin.execute("update shardclock.holders set pid = $2 where holder = $1", holder, process.pid)
        self._running[shard] = process

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for shard, process in list(self._running.items()):
                if process.has_ended():
                    del self._running[shard]
                    self._tasks.append(asyncio.create_task(self._start_again(shard, process)))

    async def _start_again(self, shard: int, dead: ShardProcess) -> None:
        """Start a shard anew, as often as it takes; the place of the dead one is taken away, its leases are not."""
        await asyncio.sleep(self._restart_s)
        while True:
            try:
                async with connected(self._direct_dsn) as admin:
                    await admin.execute(
                        "update shardclock.holders set part = null, part_count = null where holder = $1", dead.holder
                    )
                await self._start(shard)
            except AWAY:
                await asyncio.sleep(LOOK_S)
            else:
                return


class RayCluster:
    """`shardclock up`: Ray, a coordinator, as many shards and engines as it is told, two workers with an app's file.

    Without an `app` it has no worker.
    """

    name = "ray"

    def __init__(
        self, place: Path, shards: int = 3, *, app: Path | None, engines: int = 0, log: IO[bytes] | None = None
    ) -> None:
        self.takeover_s = LED_S
        self._app, self._engines = app, engines
        self._place, self._shards, self._log = place, shards, log
        self._up: ClusterProcess | None = None

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Start it in a user's directory with the app, and wait until all keepers serve.

        Engines start once a model is deployed: do that before, if there are to be some.
        """
        async with connected(direct_dsn) as admin:
            await admin.execute(WANT_ENGINES, max(1, self._engines))
        if self._app is not None:
            shutil.copy(self._app, self._place / f"{APP}.py")
        self._up = await asyncio.to_thread(
            ClusterProcess,
            self._place,
            cwd=self._place,
            SHARDCLOCK_DSN=dsn,
            **({"SHARDCLOCK_APP": APP} if self._app else {}),
            SHARDCLOCK_SHARDS=str(self._shards),
            SHARDCLOCK_METRICS_PORT="0",
            SHARDCLOCK_GATEWAY_ENABLED="false",
            SHARDCLOCK_WEBHOOK_HTTP="true",
            SHARDCLOCK_WEBHOOK_ALLOW="127.0.0.0/8",
        )
        await asyncio.to_thread(self._up.until_running)
        await until_serving(direct_dsn, self._shards)
        await until_serving(direct_dsn, WORKERS if self._app else 0, role=WORKER)
        await until_serving(direct_dsn, self._engines, role=ENGINE)

    async def stop(self) -> None:
        """End it in order, whatever is left of it."""
        if self._up is not None:
            for process in self._up.processes():
                with suppress(psutil.Error):
                    process.resume()
            if self._log is not None:
                self._log.write(self._up.said.encode())
            await asyncio.to_thread(self._up.end)
            self._up = None

    def processes(self, word: str) -> list[psutil.Process]:
        """Find its processes with a word in their command lines."""
        assert self._up is not None
        return self._up.processes(word)

    async def stand_in(self, holder: int) -> None:
        """Leave that to the coordinator."""
        raise NotImplementedError


async def until_serving(dsn: str, count: int, *, role: str = SHARD) -> None:
    """Wait until so many keepers of a role keep slots and have given a sign of life."""
    async with connected(dsn) as admin:

        async def serve() -> bool:
            return len(await admin.fetch(SERVING, role)) >= count

        assert await until(serve, within_s=START_S), f"{count} keepers of role {role} did not come up"
