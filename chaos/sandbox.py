"""Set up a Postgres server, a proxy, and a cluster that connects through the proxy, for one run."""

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

from chaos.clusters import Cluster
from chaos.proxy import ProxiedConnection, Proxy
from chaos.waiting import UNAVAILABLE, until
from shardclock_server.embedded.postmaster import PORT, Postmaster
from shardclock_server.sql.cluster.holders import ENGINE, LOCAL_NODE, SHARD, WORKER
from tests.support.processes import kill
from tests.support.roles import migrate_with_roles

POSTGRES = 18
# All processes of a sandbox have this environment variable; faults hit only these processes.
DIRECTORY = "CHAOS_DIRECTORY"
Prepare = Callable[[Path], AbstractContextManager[object]]
MakePostmaster = Callable[[Path, int], Postmaster]
START_S = 60.0
ORPHANS_S = 5.0  # The time limit for the end of remaining backends, which normally takes less.
KEEPERS = """
    select holder, pid, part, node_id = $2 as is_local from shardclock.holders
    where role = $1 and ended_at is null and part is not null order by part
"""


@dataclass(frozen=True, slots=True)
class Keeper:
    """One shard, worker or engine with slots."""

    holder: int
    pid: int
    part: int
    role: str = SHARD
    is_local: bool = False  # A local host process has started the keeper.

    def owns(self, link: ProxiedConnection) -> bool:
        """Return whether a connection belongs to the keeper.

        The name of each session of a keeper begins with the role, and ends with the holder. The operating system's list
        of connections is not used: its query for all links of a cluster blocked the rig, and all traffic, for a second.
        """
        return link.application.startswith(f"shardclock {self.role} ") and link.application.endswith(
            f" {self.holder:016x}"
        )


class Sandbox:
    """A Postgres, the proxy in front of it, and a cluster. The server can read `directory`.

    A fault that makes Postgres unavailable holds the lock `outage` until Postgres accepts connections again.
    """

    def __init__(self, cluster: Cluster, directory: Path, *, postmaster: MakePostmaster = Postmaster) -> None:
        self.cluster = cluster
        self.directory = directory
        self.postmaster = postmaster(directory / "postgres", POSTGRES)
        self.direct_dsn = f"postgresql://postgres@/postgres?host={self.postmaster.socket_dir}&port={PORT}"
        self.proxy = Proxy.before(self.direct_dsn)
        self.outage = asyncio.Lock()

    @property
    def dsn(self) -> str:
        """Return the DSN for the cluster and its clients."""
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres"

    async def shards(self) -> list[Keeper]:
        """List the living shards that have slots. A killed shard is not in the list, even if its row still exists.

        errors:  an exception in UNAVAILABLE, without a connection to Postgres
        """
        return await self._keepers(SHARD)

    async def workers(self) -> list[Keeper]:
        """List the living workers that have slots.

        errors:  an exception in UNAVAILABLE, without a connection to Postgres
        """
        return await self._keepers(WORKER)

    async def engines(self) -> list[Keeper]:
        """List the living engines that have slots.

        errors:  an exception in UNAVAILABLE, without a connection to Postgres
        """
        return await self._keepers(ENGINE)

    async def _keepers(self, role: str) -> list[Keeper]:
        async with self.admin() as admin:
            rows = await admin.fetch(KEEPERS, role, LOCAL_NODE)
        keepers = [Keeper(row["holder"], row["pid"], row["part"], role, row["is_local"]) for row in rows]
        return [keeper for keeper in keepers if self._is_ours(keeper.pid)]

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a connection that bypasses the proxy.

        errors:  an exception in UNAVAILABLE, without a connection to Postgres
        """
        admin = await asyncpg.connect(
            self.direct_dsn, timeout=5, server_settings={"timezone": "UTC", "application_name": "chaos"}
        )
        try:
            yield admin
        finally:
            admin.terminate()

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process of this sandbox.

        errors:  LookupError  the process has ended; a new process with the same pid gets no signal
        """
        if not self._is_ours(pid):
            raise LookupError(f"process {pid} is gone")
        os.kill(pid, number)

    def _is_ours(self, pid: int) -> bool:
        try:
            return psutil.Process(pid).environ().get(DIRECTORY) == str(self.directory)
        except psutil.Error:
            return False

    def go_on(self, pid: int) -> None:
        """Continue a stopped process, if it still exists."""
        with suppress(LookupError):
            self.send(pid, signal.SIGCONT)

    async def answers(self) -> bool:
        """Return whether Postgres accepts connections."""
        try:
            async with self.admin():
                return True
        except UNAVAILABLE:
            return False

    async def restart_postgres(self) -> None:
        """Start Postgres if it does not run, and wait until it accepts connections."""
        if self.postmaster.process() is None:
            await asyncio.to_thread(self.clear_orphans)
        await asyncio.to_thread(self.postmaster.ensure_up)
        await until(self.answers, within_s=START_S)

    def clear_orphans(self) -> None:
        """Kill the remaining backends of a killed server, because the recorder's backend may never end."""
        pgdata = str(self.postmaster.pgdata)
        orphans = [it for it in psutil.process_iter(["name", "cwd"]) if it.info["cwd"] == pgdata]
        _, stuck = psutil.wait_procs(orphans, timeout=ORPHANS_S)
        kill(stuck)
        psutil.wait_procs(stuck, timeout=ORPHANS_S)


@asynccontextmanager
async def sandbox_for(
    cluster: Cluster,
    *,
    settings: Sequence[str] = (),
    prepare: Prepare | None = None,
    postmaster: MakePostmaster = Postmaster,
) -> AsyncIterator[Sandbox]:
    """Set up a sandbox for one run, without starting the cluster, and remove the whole sandbox at the end.

    `prepare` is a context manager that provides a separate disk or clock; it is entered before the server is created.
    `postmaster` creates the supervisor of the server, for a server on another host.
    """
    directory = Path(tempfile.mkdtemp(prefix="shardclock-chaos-"))
    sandbox = Sandbox(cluster, directory, postmaster=postmaster)
    os.environ[DIRECTORY] = str(directory)
    try:
        with prepare(directory) if prepare else nullcontext():
            async with _served(sandbox, settings):
                yield sandbox
    finally:
        del os.environ[DIRECTORY]
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def _served(sandbox: Sandbox, settings: Sequence[str]) -> AsyncIterator[None]:
    try:
        await asyncio.to_thread(_make_server, sandbox.postmaster, settings)
        await migrate_with_roles(sandbox.direct_dsn)
        await sandbox.proxy.start()
        try:
            yield
        finally:
            await sandbox.cluster.stop()
            await sandbox.proxy.close()
    finally:
        await asyncio.to_thread(sandbox.postmaster.stop)
        await asyncio.to_thread(sandbox.clear_orphans)


def _make_server(postmaster: Postmaster, settings: Sequence[str]) -> None:
    postmaster.prepare()
    postmaster.ensure_up()
    postmaster.stop()
    with (postmaster.pgdata / "postgresql.auto.conf").open("a") as conf:
        # Disable fsync, which protects only against the loss of a machine. The rig never stops the machine, and a
        # killed Postgres loses no data without fsync.
        conf.write("\n".join(["wal_level = logical", "fsync = off", "log_min_messages = fatal", *settings, ""]))
    postmaster.ensure_up()
