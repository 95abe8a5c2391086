"""Run Ray on four hosts, Postgres on a fifth host, and `shardclock up` on the host of Ray's head."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.clusters import START_S
from chaos.history.faults import WHOLE_S
from chaos.network import Network
from chaos.waiting import POLL_S, connected
from chaos.waiting import until as comes_true
from shardclock_server.cluster.node import DSN
from shardclock_server.embedded.postmaster import PORT, Postmaster
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.session import Session
from tests.support.cluster_process import ClusterProcess
from tests.support.processes import title
from tests.support.program import PROGRAM, until
from tests.support.roles import as_role

HEAD, WORKERS, STORE = "head", ("one", "two", "three"), "store"
COORDINATOR = "CoordinatorActor"
RAY_PORT = 6379
AS_HEAD = ("--head", f"--port={RAY_PORT}", "--num-cpus=0", "--include-dashboard=false")
SHARDS = 2
TAKEOVER_S = 2.5
STOP_S = 15.0
JOINED = "Ray runtime started"
LISTEN = "listen_addresses = '*'"
TRUST = "host all all 10.77.0.0/24 trust\n"
OBJECT_STORE_BYTES = 80 * 1024 * 1024
# For a Ray that `up` starts, `cluster.ray_cluster.prepare_environment` sets these variables. For a joined Ray, the user
# sets these variables as docs/operate describes.
RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_AUTH_MODE": "token",
}
BEATING = """
    select pid from shardclock.presence
    where suspended_at is null and part is not null and seen_at > now() - interval '1 s'
    order by started_at
"""


class HostedPostmaster(Postmaster):
    """Start the Postgres server on a host of a network; processes outside of the network use its Unix socket."""

    def __init__(self, network: Network, data_dir: Path, version: int) -> None:
        super().__init__(data_dir, version)
        self._network = network

    def ensure_up(self) -> None:
        """Start the server on its host.

        The first start writes the rules for logins, so other hosts can log in only after the second start.
        """
        rules = self.pgdata / "pg_hba.conf"
        if rules.exists() and TRUST not in rules.read_text():
            rules.write_text(rules.read_text() + TRUST)
        self._network.within(STORE, super().ensure_up)


class MultiHostCluster:
    """Run the head and three workers of a Ray cluster on four hosts; the workers run two shards."""

    name = "four hosts"
    takeover_s = TAKEOVER_S
    whole_s = WHOLE_S

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        self._directory = directory
        # The path is short, because Ray puts sockets below this directory.
        self._temp = Path(tempfile.mkdtemp(prefix="sc-"))
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._up: ClusterProcess | None = None
        self._token = secrets.token_hex(32)
        self._dsn = self.said = ""

    async def start(self, dsn: str, direct_dsn: str) -> None:  # noqa: ARG002 - clients take the proxy, hosts don't
        """Start Ray on all hosts, then the cluster, and wait until all shards serve."""
        self._dsn = direct_dsn
        await asyncio.to_thread(self._start_node, HEAD, *AS_HEAD)
        for worker in WORKERS:
            await asyncio.to_thread(self._start_node, worker, *self._as_worker)
        await asyncio.to_thread(
            until, lambda: all(map(self._has_joined, WORKERS)), "the workers to join", within_s=START_S
        )
        self._keeping = asyncio.create_task(self._keep())
        async with Session(direct_dsn, application="test") as session:
            await scale(session, SHARD, SHARDS)
        await asyncio.to_thread(self._start_up)
        assert await comes_true(self.is_whole, within_s=START_S), self._up and self._up.said

    async def stop(self) -> None:
        """Shut the cluster down cleanly, then Ray."""
        if self._up is not None:
            self._up.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._up.process.wait, STOP_S)
            self.said = self._up.said
            await asyncio.to_thread(self._up.end)
            self._up = None
        if self._keeping is not None:
            self._keeping.cancel()
        for node in reversed(self._nodes.values()):
            node.terminate()
        for node in self._nodes.values():
            try:
                await asyncio.to_thread(node.wait, STOP_S)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        self._nodes.clear()
        shutil.rmtree(self._temp, ignore_errors=True)

    def processes(self, word: str) -> list[psutil.Process]:
        """Find the processes of Ray and of `up` by a word in the command line."""
        return [it for host in (HEAD, *WORKERS) for it in self.network.processes(host) if word in title(it)]

    async def start_successor(self, holder: int) -> None:
        """Refuse: the coordinator replaces keepers."""
        raise NotImplementedError

    async def restart(self, after_s: float) -> None:
        """Refuse: `up` runs on a host of the network."""
        raise NotImplementedError

    async def serving(self) -> list[str]:
        """List the hosts of the shards that have slots and a heartbeat, the oldest shard first.

        errors:  an exception in UNAVAILABLE, without a connection to Postgres
        """
        async with connected(self._dsn) as admin:
            pids = [row["pid"] for row in await admin.fetch(BEATING)]
        return [host for pid in pids if (host := self.network.host_of(pid))]

    async def is_whole(self) -> bool:
        """Return whether all shards serve, each on a different host.

        errors:  an exception in UNAVAILABLE, without a connection to Postgres
        """
        return len(set(await self.serving())) == SHARDS

    @property
    def _address(self) -> str:
        return f"{self.network.addresses[HEAD]}:{RAY_PORT}"

    @property
    def _as_worker(self) -> tuple[str, ...]:
        return f"--address={self._address}", "--num-cpus=1"

    def _has_joined(self, host: str) -> bool:
        return JOINED in (self._temp / host / "said").read_text()

    async def _keep(self) -> None:
        """Start Ray again on each worker host without a running Ray, as KubeRay does.

        Ray ends on a worker host after the head has declared the host dead.
        """
        while True:
            await asyncio.sleep(POLL_S)
            for worker in WORKERS:
                if self._nodes[worker].poll() is not None:
                    await asyncio.to_thread(self._start_node, worker, *self._as_worker)

    def _start_node(self, host: str, *options: str) -> None:
        ray = Path(shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray")
        temp_dir = self._temp / host
        temp_dir.mkdir(exist_ok=True)
        with (temp_dir / "said").open("ab") as said:
            self._nodes[host] = subprocess.Popen(
                [
                    *self.network.command(host), ray, "start", "--block", *options,
                    f"--node-ip-address={self.network.addresses[host]}", f"--temp-dir={temp_dir}",
                    f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats",
                ],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=os.environ | self._environment(host),
                start_new_session=True,
            )  # fmt: skip

    def _start_up(self) -> None:
        self._up = ClusterProcess(
            self._directory,
            program=[*self.network.command(HEAD), *PROGRAM],
            cwd=None,
            SHARDCLOCK_RAY_ADDRESS=self._address,
            SHARDCLOCK_RAY_AUTH_TOKEN=self._token,
            SHARDCLOCK_METRICS_PORT="0",
            SHARDCLOCK_GATEWAY_ENABLED="false",
            **self._environment(HEAD),
        )
        self._up.until_running()

    def _environment(self, host: str) -> dict[str, str]:
        dsn = as_role(f"postgresql://postgres@{self.network.addresses[STORE]}:{PORT}/postgres", "shard")
        return RAY | {"RAY_AUTH_TOKEN": self._token, "RAY_TMPDIR": str(self._temp / host), DSN: dsn}
