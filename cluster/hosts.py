"""How hosts are started, one after the other: hosts of Ray, or hosts of local keepers."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from shardclock_server.cluster import host
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.host_process import HostProcess, local_host
from shardclock_server.cluster.local_order import LocalOrder
from shardclock_server.cluster.node import environment_of, environment_with
from shardclock_server.cluster.scratch import Scratch, short_place
from shardclock_server.cluster.settings import PREFIX, Settings
from shardclock_server.workers.app import App

RAY_HOST = "shardclock_server.cluster.host"


@dataclass(frozen=True, slots=True)
class Hosting:
    """Hold the orders for hosts."""

    settings: Settings
    database: Database
    cluster_id: str
    metrics_socket: str
    keep_running: bool = False
    app: App | None = None


class Hosts(Protocol):
    """How the hosts of one kind are started, one after the other."""

    name: str

    def start(self) -> HostProcess:
        """Start a host, when there is no other."""

    def clear(self) -> None:
        """Remove the files of the hosts that have ended."""


class RayHosts:
    """Hosts of Ray, each with a directory for temporary files."""

    name = "Ray"

    def __init__(self, hosting: Hosting, *, logs: IO[bytes] | None) -> None:
        self._hosting = hosting
        self._logs = logs
        self._scratches: list[Scratch] = []

    def start(self) -> HostProcess:
        """Start a host, when there is no other."""
        scratch = Scratch.make("ray", place=short_place())
        self._scratches.append(scratch)
        # Ray writes the address of the last cluster here, and fails without the directory.
        (scratch.path / "ray").mkdir()
        # The host may outlive us for a moment, and needs the directory until then.
        return HostProcess(RAY_HOST, self.environment(scratch.path), logs=self._logs, pass_fds=[scratch.fileno()])

    def clear(self) -> None:
        """Remove all directories each time: an orphan of a killed Ray may have written to an older one again."""
        for scratch in self._scratches:
            scratch.remove()

    def environment(self, temp_dir: Path) -> dict[str, str]:
        """Return the environment of a host, which holds its order."""
        it = self._hosting
        token = it.settings.ray_auth_token
        return {
            **environment_with(it.settings.environment(), it.database.dsn),
            **({f"{PREFIX}RAY_AUTH_TOKEN": token.get_secret_value()} if token else {}),
            f"{PREFIX}METRICS_SOCKET": it.metrics_socket,
            host.CLUSTER_ID: it.cluster_id,
            host.TEMP_DIR: str(temp_dir),
            host.EMBEDDED: "1" if it.database.is_embedded else "0",
            host.KEEP_RUNNING: "1" if it.keep_running else "0",
            host.APP: it.app.to_json() if it.app else "",
        }


class LocalHosts:
    """Hosts of local keepers. The first may have been started ahead, to load its modules while Postgres starts."""

    name = "the host of the local keepers"

    def __init__(self, hosting: Hosting, *, logs: IO[bytes] | None, ahead: HostProcess | None) -> None:
        self._hosting = hosting
        self._logs = logs
        self._ahead = ahead

    def start(self) -> HostProcess:
        """Start a host, or take the one that was started ahead, and give it its order."""
        process, self._ahead = self._ahead or local_host(logs=self._logs), None
        process.order(self.order())
        return process

    def clear(self) -> None:
        """Remove nothing: they leave no files."""

    def order(self) -> bytes:
        """Write the order."""
        it = self._hosting
        return LocalOrder(
            cluster_id=it.cluster_id,
            database=environment_of(it.database.dsn),
            is_embedded=it.database.is_embedded,
            metrics_socket=it.metrics_socket,
            app=it.app.to_json() if it.app else "",
        ).to_json()
