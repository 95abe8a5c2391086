"""Start the clusters of a chaos run: keepers as plain processes, or `shardclock up` in one of its modes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import psutil

from chaos.history import ALONE_S
from chaos.history.faults import WHOLE_S
from chaos.keeper_pool import KeeperPool
from chaos.waiting import POLL_S, UNAVAILABLE, connected, until
from chaos.worker_pool import WorkerPool
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.cluster.holders import ENGINE, LOCAL_NODE, SHARD, WORKER
from tests.support.cluster_process import ClusterProcess
from tests.support.engine_process import engine_process
from tests.support.factories import add_holder
from tests.support.separate_keeper import SeparateKeeper
from tests.support.shard_pool import incarnation
from tests.support.shard_process import ShardProcess

START_S = 60.0
# The modes of `shardclock up`: keepers as local processes, keepers in Ray, or keepers in Ray with local keepers that
# take over when Ray fails.
MODES: Mapping[str, Mapping[str, str]] = {
    "local": {"SHARDCLOCK_LOCAL": "true"},
    "ray": {"SHARDCLOCK_STANDBY": "false"},
    "standby": {"SHARDCLOCK_STANDBY": "true"},
}
CLUSTERS = (*MODES, "processes")
LED_S = 2.0  # The promised time of a takeover while a coordinator leads.
STOOD_BY_S = 2.0  # The promised time of a takeover from Ray by local keepers.
APP = "chaos_app"
WORKERS = 2  # A new database sets the number of workers to this value.
WANT_ENGINES = "update shardclock.scale set wanted = $1 where role = 'engine'"
SERVING = """
    select from shardclock.presence
    where role = $1 and part is not null and seen_at > started_at and node_id <> $2
"""


class Cluster(Protocol):
    """Start, replace and stop the keepers of one cluster on a given database."""

    name: str
    takeover_s: float
    whole_s: float  # The promised time until other shards have replaced all shards of a lost Ray cluster.

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Start the cluster, and wait until its shards and workers serve."""

    async def stop(self) -> None:
        """Shut the cluster down cleanly."""

    def processes(self, word: str) -> list[psutil.Process]:
        """Find the cluster's processes that have a word in their command lines."""

    async def start_successor(self, holder: int) -> None:
        """Start a second keeper for the slots of a running keeper, and wait until the second keeper serves."""

    async def restart(self, after_s: float) -> None:
        """Kill `up` with -9, and start it again after a delay, as a supervisor would."""


class ProcessCluster:
    """Run shards as plain processes, without Ray and a coordinator: only leases, sweeps and fences protect timers.

    A dead shard is started again after `restart_s`, as by a supervisor. Until this restart, the other shards must take
    over. `workers` and `engines` are the numbers of workers and engines that run with the shards.
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
        self.takeover_s, self.whole_s = ALONE_S, WHOLE_S
        self._shards, self._restart_s, self._tuning = shards, restart_s, tuning
        self._build, self._log = build, log
        self._running: dict[int, ShardProcess] = {}
        self._zombies: list[ShardProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._workers_count, self._workers = workers, WorkerPool(workers, build=build, log=log)
        self._engines_count, self._engines = engines, KeeperPool(ENGINE, engines, self._spawn_engine)
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
        """Kill all keepers."""
        for task in self._tasks:
            task.cancel()
        for process in [*self._running.values(), *self._zombies]:
            process.kill()
        self._workers.stop()
        self._engines.stop()

    def processes(self, word: str) -> list[psutil.Process]:
        """Find the processes of handlers; all other processes of this cluster are keepers."""
        return self._workers.processes(word)

    async def start_successor(self, holder: int) -> None:
        """Start a second keeper for the slots of a running keeper.

        The successor replaces a dead shard. A successor of a worker or an engine is restarted when it dies.
        """
        if self._engines.has(holder):
            await self._engines.start_successor(holder)
            return
        if self._workers.has(holder):
            await self._workers.start_successor(holder)
            return
        shard = next((shard for shard, process in self._running.items() if process.holder == holder), None)
        if shard is None:
            raise LookupError(f"holder {holder:x} has just ended")
        self._zombies.append(self._running.pop(shard))
        await self._start(shard)
        await until_serving(self._direct_dsn, self._shards + 1)

    async def restart(self, after_s: float) -> None:
        """Refuse: this cluster has no `up`."""
        raise NotImplementedError

    def _spawn_engine(self, holder: int) -> SeparateKeeper:
        return engine_process(holder, EngineSettings(), self._dsn, build=self._build, log=self._log)

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
            await asyncio.sleep(POLL_S)
            for shard, process in list(self._running.items()):
                if process.has_ended():
                    del self._running[shard]
                    self._tasks.append(asyncio.create_task(self._start_again(shard, process)))

    async def _start_again(self, shard: int, dead: ShardProcess) -> None:
        """Start a dead shard again, and retry until a start succeeds.

        The dead shard loses its slots; its leases remain valid.
        """
        await asyncio.sleep(self._restart_s)
        while True:
            try:
                async with connected(self._direct_dsn) as admin:
                    await admin.execute(
                        "update shardclock.holders set part = null, part_count = null where holder = $1", dead.holder
                    )
                await self._start(shard)
            except UNAVAILABLE:
                await asyncio.sleep(POLL_S)
            else:
                return


class UpCluster:
    """Run `shardclock up`: a coordinator, the given number of shards and engines, and two workers with an app.

    The mode is one of `MODES`. Without an `app` the cluster has no worker.
    """

    def __init__(
        self,
        mode: str,
        directory: Path,
        shards: int = 3,
        *,
        app: Path | None,
        engines: int = 0,
        log: IO[bytes] | None = None,
    ) -> None:
        self.name = mode
        self.takeover_s, self.whole_s = LED_S, STOOD_BY_S if mode == "standby" else WHOLE_S
        self._app, self._engines = app, engines
        self._directory, self._shards, self._log = directory, shards, log
        self._up: ClusterProcess | None = None

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Start `up` in a user's directory with the app, and wait until all keepers serve.

        Engines start only after a deployment, so a run with engines must deploy its models before this call.
        """
        async with connected(direct_dsn) as admin:
            await admin.execute(WANT_ENGINES, max(1, self._engines))
        if self._app is not None:
            shutil.copy(self._app, self._directory / f"{APP}.py")
        self._up = await asyncio.to_thread(
            ClusterProcess,
            self._directory,
            cwd=self._directory,
            SHARDCLOCK_DSN=dsn,
            **({"SHARDCLOCK_APP": APP} if self._app else {}),
            SHARDCLOCK_SHARDS=str(self._shards),
            SHARDCLOCK_METRICS_PORT="0",
            SHARDCLOCK_GATEWAY_ENABLED="false",
            SHARDCLOCK_WEBHOOK_HTTP="true",
            SHARDCLOCK_WEBHOOK_ALLOW="127.0.0.0/8",
            **MODES[self.name],
        )
        await asyncio.to_thread(self._up.until_running)
        if self.name == "standby":  # Faults of Ray require shards in Ray.
            await until_serving(direct_dsn, self._shards, but_not_on=LOCAL_NODE)
        await until_serving(direct_dsn, self._shards)
        await until_serving(direct_dsn, WORKERS if self._app else 0, role=WORKER)
        await until_serving(direct_dsn, self._engines, role=ENGINE)

    async def stop(self) -> None:
        """Resume the processes that a fault has frozen, and then shut the cluster down cleanly."""
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

    async def start_successor(self, holder: int) -> None:
        """Refuse: the coordinator replaces keepers."""
        raise NotImplementedError

    async def restart(self, after_s: float) -> None:
        """Kill `up` with -9, and start it again after a delay, as a supervisor would."""
        assert self._up is not None
        self._up.process.kill()
        await asyncio.sleep(after_s)
        await asyncio.to_thread(self._up.start_again)


async def until_serving(dsn: str, count: int, *, role: str = SHARD, but_not_on: str = "") -> None:
    """Wait until `count` keepers of a role, except keepers on the node `but_not_on`, have slots and a heartbeat."""
    async with connected(dsn) as admin:

        async def serve() -> bool:
            return len(await admin.fetch(SERVING, role, but_not_on)) >= count

        assert await until(serve, within_s=START_S), f"{count} keepers of role {role} did not start"
