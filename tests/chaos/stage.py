"""What is broken: a Postgres of the run's own behind the proxy, and a cluster on it, with or without Ray."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import asyncpg
import psutil

from cluster.postmaster import PORT, Postmaster
from shards.settings import ShardSettings
from sql.migrate import migrate
from tests.chaos.proxy import Link, Proxy
from tests.crew import incarnation
from tests.shard_process import ShardProcess
from tests.store import add_holder
from tests.up import Up

POSTGRES = 18
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
LOOK_S = 0.05
MARK = "SHARDCLOCK_CHAOS"  # in the environment of all that a stage starts: what does not bear it is not touched
Prepare = Callable[[Path], AbstractContextManager[None]]
START_S = 60.0
ORPHANS_S = 5.0  # they end by themselves within a moment, as a rule
SHARDS = "select holder, pid, shard from shardclock.holders where ended_at is null and shard is not null order by shard"
SERVING = "select from shardclock.holders where ended_at is null and shard is not null and seen_at > started_at"


@dataclass(frozen=True, slots=True)
class Place:
    """One shard at work."""

    holder: int
    pid: int
    shard: int

    def owns(self, link: Link) -> bool:
        """Say whether a connection is this shard's."""
        if not link.application.startswith("shardclock shard"):
            return False
        try:
            return link.port in {it.laddr.port for it in psutil.Process(self.pid).net_connections("tcp")}
        except psutil.Error:
            return False


class Cluster(Protocol):
    """What fires: started on a DSN, and tended until it is stopped."""

    name: str
    takeover_s: float

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Bring it up, and wait until its shards serve."""

    async def stop(self) -> None:
        """End it in order."""

    def processes(self, word: str) -> list[psutil.Process]:
        """Find its processes with a word in their command lines."""

    async def stand_in(self, holder: int) -> None:
        """Start another shard for the slots of one that is there, and wait until it is at work."""


class Stage:
    """Keep a Postgres, the proxy before it, and a cluster. `place` is a directory that the server can read, too."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster = cluster
        self.place = place
        data_dir = place / "postgres"
        self.postmaster = Postmaster(data_dir, POSTGRES)
        self.proxy = Proxy(self.postmaster.socket_dir / f".s.PGSQL.{PORT}")
        self.direct_dsn = f"postgresql://postgres@/postgres?host={self.postmaster.socket_dir}&port={PORT}"

    @property
    def dsn(self) -> str:
        """Name the database as the cluster and its clients reach it."""
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres"

    async def shards(self) -> list[Place]:
        """List the shards that keep slots now.

        errors:  one of AWAY
        """
        async with self.admin() as admin:
            return [Place(*row) for row in await admin.fetch(SHARDS)]

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a connection of the rig's own, past the proxy.

        errors:  one of AWAY
        """
        admin = await asyncpg.connect(
            self.direct_dsn, timeout=5, server_settings={"timezone": "UTC", "application_name": "chaos"}
        )
        try:
            yield admin
        finally:
            admin.terminate()

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process of this stage.

        errors:  LookupError  it is gone; whoever has its number now is left alone
        """
        try:
            ours = psutil.Process(pid).environ().get(MARK) == str(self.place)
        except psutil.Error:
            ours = False
        if not ours:
            raise LookupError(f"process {pid} is gone")
        os.kill(pid, number)

    def go_on(self, pid: int) -> None:
        """Let a process that was stopped go on, if it is still there."""
        with suppress(LookupError):
            self.send(pid, signal.SIGCONT)

    async def answers(self) -> bool:
        """Say whether Postgres accepts connections."""
        try:
            async with self.admin():
                return True
        except AWAY:
            return False

    async def restart_postgres(self) -> None:
        """Bring Postgres up, whatever state it was left in, and wait until it accepts connections."""
        if self.postmaster.process() is None:
            await asyncio.to_thread(self._clear_orphans)
        await asyncio.to_thread(self.postmaster.ensure_up)
        await until(self.answers, within_s=START_S)

    def _clear_orphans(self) -> None:
        """End what is left of a killed server: a backend that decodes for the recorder may wait for more for ever."""
        pgdata = str(self.postmaster.pgdata)
        orphans = [it for it in psutil.process_iter(["name", "cwd"]) if it.info["cwd"] == pgdata]
        _, stuck = psutil.wait_procs(orphans, timeout=ORPHANS_S)
        for orphan in stuck:
            orphan.kill()
        psutil.wait_procs(stuck, timeout=ORPHANS_S)


@asynccontextmanager
async def stage_for(
    cluster: Cluster, *, settings: Sequence[str] = (), prepare: Prepare | None = None
) -> AsyncIterator[Stage]:
    """Set a stage for one run, with the cluster not yet started; nothing of it is left.

    `prepare` is done for as long as the stage stands, before its server is made: a disk of its own, another clock.
    """
    place = Path(tempfile.mkdtemp(prefix="shardclock-chaos-"))
    stage = Stage(cluster, place)
    os.environ[MARK] = str(place)
    try:
        with prepare(place) if prepare else nullcontext():
            async with _served(stage, settings):
                yield stage
    finally:
        del os.environ[MARK]
        shutil.rmtree(place, ignore_errors=True)


@asynccontextmanager
async def _served(stage: Stage, settings: Sequence[str]) -> AsyncIterator[None]:
    try:
        await asyncio.to_thread(_make_server, stage.postmaster, settings)
        await migrate(stage.direct_dsn)
        await stage.proxy.start()
        try:
            yield
        finally:
            await stage.cluster.stop()
            await stage.proxy.close()
    finally:
        await asyncio.to_thread(stage.postmaster.stop)


def _make_server(postmaster: Postmaster, settings: Sequence[str]) -> None:
    postmaster.prepare()
    postmaster.ensure_up()
    postmaster.stop()
    with (postmaster.pgdata / "postgresql.auto.conf").open("a") as conf:
        # fsync guards against a lost machine, which the rig can't make; kill -9 of Postgres loses nothing without it.
        conf.write("\n".join(["wal_level = logical", "fsync = off", "log_min_messages = fatal", *settings, ""]))
    postmaster.ensure_up()


class Processes:
    """Shards as plain processes: no Ray and no coordinator, so only leases, the sweep and the fence are at work.

    One that has died is started anew after a while, as a supervisor would; until then the others must do.
    """

    name = "processes"

    def __init__(
        self,
        shards: int = 2,
        *,
        restart_s: float = 14.0,
        build: Path | None = None,
        log: IO[bytes] | None = None,
        **tuning: Any,
    ) -> None:
        self.takeover_s = 13.0
        self._shards, self._restart_s, self._tuning = shards, restart_s, tuning
        self._build, self._log = build, log
        self._running: dict[int, ShardProcess] = {}
        self._zombies: list[ShardProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._dsn = self._direct_dsn = ""

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Start all shards, each with its assignment."""
        self._dsn, self._direct_dsn = dsn, direct_dsn
        for shard in range(self._shards):
            await self._start(shard)
        await until_serving(direct_dsn, self._shards)
        self._tasks.append(asyncio.create_task(self._keep()))

    async def stop(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        for process in [*self._running.values(), *self._zombies]:
            process.kill()

    def processes(self, word: str) -> list[psutil.Process]:  # noqa: ARG002 - as the others
        """Find none: there is nothing here but shards."""
        return []

    async def stand_in(self, holder: int) -> None:
        """Start another shard for the slots of one that is there; if that dies, nobody else takes its place."""
        shard = next((shard for shard, process in self._running.items() if process.holder == holder), None)
        if shard is None:
            raise LookupError(f"holder {holder:x} has just ended")
        self._zombies.append(self._running.pop(shard))
        await self._start(shard)
        await until_serving(self._direct_dsn, self._shards + 1)

    async def _start(self, shard: int) -> None:
        holder = incarnation().holder
        await add_holder(self._direct_dsn, holder, shard, self._shards)
        settings = ShardSettings(dsn=self._dsn, **self._tuning)
        process = ShardProcess(holder, settings, build=self._build, log=self._log)
        async with _connected(self._direct_dsn) as admin:
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
                async with _connected(self._direct_dsn) as admin:
                    await admin.execute(
                        "update shardclock.holders set shard = null, shard_count = null where holder = $1", dead.holder
                    )
                await self._start(shard)
            except AWAY:
                await asyncio.sleep(LOOK_S)
            else:
                return


class RayCluster:
    """`shardclock up`: Ray, a coordinator, and as many shards as it is told."""

    name = "ray"

    def __init__(self, place: Path, shards: int = 3, *, log: IO[bytes] | None = None) -> None:
        self.takeover_s = 2.0
        self._place, self._shards, self._log = place, shards, log
        self._up: Up | None = None

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Start it, and wait until all shards serve."""
        self._up = await asyncio.to_thread(
            Up, self._place, SHARDCLOCK_DSN=dsn, SHARDCLOCK_SHARDS=str(self._shards), SHARDCLOCK_METRICS_PORT="0"
        )
        await asyncio.to_thread(self._up.until_running)
        await until_serving(direct_dsn, self._shards)

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


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        yield connection
    finally:
        connection.terminate()


async def until_serving(dsn: str, shards: int) -> None:
    """Wait until so many shards keep slots and have given a sign of life."""
    async with _connected(dsn) as admin:

        async def serve() -> bool:
            return len(await admin.fetch(SERVING)) >= shards

        assert await until(serve, within_s=START_S), f"{shards} shards did not come up"


async def until(holds: Callable[[], Any], *, within_s: float) -> bool:
    """Wait until something holds, which may fail while Postgres is away; say whether it came."""
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if await holds():
                        return True
                except AWAY:
                    pass
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        return False
