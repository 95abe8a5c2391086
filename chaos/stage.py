"""What is broken: a Postgres of the run's own behind the proxy, and a cluster on it."""

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

import asyncpg
import psutil

from chaos.away import AWAY, until
from chaos.clusters import Cluster
from chaos.proxy import Link, Proxy
from shardclock_server.embedded.postmaster import PORT, Postmaster
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER
from tests.support.processes import kill
from tests.support.roles import migrate_with_roles

POSTGRES = 18
MARK = "CHAOS_OF_SHARDCLOCK"  # in the environment of all that a stage starts: what does not bear it is not touched
Prepare = Callable[[Path], AbstractContextManager[object]]
MakePostmaster = Callable[[Path, int], Postmaster]
START_S = 60.0
ORPHANS_S = 5.0  # they end by themselves within a moment, as a rule
KEEPERS = """
    select holder, pid, part from shardclock.holders
    where role = $1 and ended_at is null and part is not null order by part
"""


@dataclass(frozen=True, slots=True)
class Place:
    """One shard, worker or engine at work."""

    holder: int
    pid: int
    part: int
    role: str = SHARD

    def owns(self, link: Link) -> bool:
        """Say whether a connection is its own."""
        if not link.application.startswith(f"shardclock {self.role}"):
            return False
        try:
            return link.port in {it.laddr.port for it in psutil.Process(self.pid).net_connections("tcp")}
        except psutil.Error:
            return False


class Stage:
    """Keep a Postgres, the proxy before it, and a cluster. `place` is a directory that the server can read, too.

    `outage` is held while a fault keeps Postgres away, until it accepts connections again.
    """

    def __init__(self, cluster: Cluster, place: Path, *, postmaster: MakePostmaster = Postmaster) -> None:
        self.cluster = cluster
        self.place = place
        self.postmaster = postmaster(place / "postgres", POSTGRES)
        self.direct_dsn = f"postgresql://postgres@/postgres?host={self.postmaster.socket_dir}&port={PORT}"
        self.proxy = Proxy.before(self.direct_dsn)
        self.outage = asyncio.Lock()

    @property
    def dsn(self) -> str:
        """Name the database as the cluster and its clients reach it."""
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres"

    async def shards(self) -> list[Place]:
        """List the shards that keep slots now; one that was killed may still stand there, and is left out.

        errors:  one of AWAY
        """
        return await self._keepers(SHARD)

    async def workers(self) -> list[Place]:
        """List the workers that keep slots now, as `shards` does.

        errors:  one of AWAY
        """
        return await self._keepers(WORKER)

    async def engines(self) -> list[Place]:
        """List the engines that keep slots now, as `shards` does.

        errors:  one of AWAY
        """
        return await self._keepers(ENGINE)

    async def _keepers(self, role: str) -> list[Place]:
        async with self.admin() as admin:
            places = [Place(row["holder"], row["pid"], row["part"], role) for row in await admin.fetch(KEEPERS, role)]
        return [place for place in places if self._is_ours(place.pid)]

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
        if not self._is_ours(pid):
            raise LookupError(f"process {pid} is gone")
        os.kill(pid, number)

    def _is_ours(self, pid: int) -> bool:
        try:
            return psutil.Process(pid).environ().get(MARK) == str(self.place)
        except psutil.Error:
            return False

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
            await asyncio.to_thread(self.clear_orphans)
        await asyncio.to_thread(self.postmaster.ensure_up)
        await until(self.answers, within_s=START_S)

    def clear_orphans(self) -> None:
        """End what is left of a killed server: a backend that decodes for the recorder may wait for more for ever."""
        pgdata = str(self.postmaster.pgdata)
        orphans = [it for it in psutil.process_iter(["name", "cwd"]) if it.info["cwd"] == pgdata]
        _, stuck = psutil.wait_procs(orphans, timeout=ORPHANS_S)
        kill(stuck)
        psutil.wait_procs(stuck, timeout=ORPHANS_S)


@asynccontextmanager
async def stage_for(
    cluster: Cluster,
    *,
    settings: Sequence[str] = (),
    prepare: Prepare | None = None,
    postmaster: MakePostmaster = Postmaster,
) -> AsyncIterator[Stage]:
    """Set a stage for one run, with the cluster not yet started; nothing of it is left.

    `prepare` is done for as long as the stage stands, before its server is made: a disk of its own, another clock.
    `postmaster` makes what looks after that server, if it is to run elsewhere.
    """
    place = Path(tempfile.mkdtemp(prefix="shardclock-chaos-"))
    stage = Stage(cluster, place, postmaster=postmaster)
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
        await migrate_with_roles(stage.direct_dsn)
        await stage.proxy.start()
        try:
            yield
        finally:
            await stage.cluster.stop()
            await stage.proxy.close()
    finally:
        await asyncio.to_thread(stage.postmaster.stop)
        await asyncio.to_thread(stage.clear_orphans)


def _make_server(postmaster: Postmaster, settings: Sequence[str]) -> None:
    postmaster.prepare()
    postmaster.ensure_up()
    postmaster.stop()
    with (postmaster.pgdata / "postgresql.auto.conf").open("a") as conf:
        # fsync guards against a lost machine, which the rig can't make; kill -9 of Postgres loses nothing without it.
        conf.write("\n".join(["wal_level = logical", "fsync = off", "log_min_messages = fatal", *settings, ""]))
    postmaster.ensure_up()
