"""Start host processes: one for Ray, one for the local keepers."""

from dataclasses import dataclass
from hashlib import sha256
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
from shardclock_server.workers.machine import Machine

STAND_BY = "+local"  # Users' cluster ids have no +.
# In characters. The name of a database session, "shardclock stand-by NAME", has at most 63 characters in Postgres.
STAND_BY_MAX = 43
DIGEST = 8  # The length of a digest in characters.
RAY_HOST = "shardclock_server.cluster.host"


@dataclass(frozen=True, slots=True)
class Hosting:
    """The values that `up` passes to its hosts."""

    settings: Settings
    database: Database
    cluster_id: str
    metrics_socket: str
    keep_running: bool = False
    app: App | None = None

    @property
    def local_cluster_id(self) -> str:
        """Return the cluster id of the local keepers, which differs from the cluster id of Ray's keepers."""
        return stand_by_of(self.cluster_id) if self.settings.has_stand_by else self.cluster_id


def stand_by_of(cluster_id: str) -> str:
    """Return the id of the local cluster that stands by for a cluster of Ray's keepers.

    shape:   at most `STAND_BY_MAX` characters; different for each `cluster_id`
    """
    room = STAND_BY_MAX - len(STAND_BY)
    if len(cluster_id) > room:
        digest = sha256(cluster_id.encode()).hexdigest()[:DIGEST]
        cluster_id = f"{cluster_id[: room - 1 - DIGEST]}-{digest}"
    return f"{cluster_id}{STAND_BY}"


class Hosts(Protocol):
    """Start the hosts of one kind (for Ray, or for local keepers), one after the other."""

    name: str

    def start(self) -> HostProcess:
        """Start a host; the earlier host must have ended."""

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
        """Start a host; the earlier host must have ended."""
        scratch = Scratch.make("ray", place=short_place())
        self._scratches.append(scratch)
        # Ray writes the address of the last cluster to this directory, and fails if the directory is missing.
        (scratch.path / "ray").mkdir()
        # The host inherits the lock of the directory, because it may run for a moment after the end of this process.
        return HostProcess(
            RAY_HOST,
            self.environment(scratch.path),
            logs=self._logs,
            pass_fds=[scratch.fileno()],
            # Without the kill of the group, the agents of a lost Ray would wait a minute for Ray's servers. Actors are
            # not killed with the group: each actor has its own process group.
            with_group=True,
        )

    def clear(self) -> None:
        """Remove the directories of all earlier hosts.

        Each call also removes directories that earlier calls have removed, because the processes of a killed Ray may
        have written to them again.
        """
        for scratch in self._scratches:
            scratch.remove()

    def environment(self, temp_dir: Path) -> dict[str, str]:
        """Return the environment variables of a host; a host of Ray reads its configuration from these variables."""
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
    """Hosts of local keepers. The first host may already run, because it loads its modules while Postgres starts."""

    name = "the host of the local keepers"

    def __init__(self, hosting: Hosting, *, logs: IO[bytes] | None, ahead: HostProcess | None) -> None:
        self._hosting = hosting
        self._logs = logs
        self._ahead = ahead

    def start(self) -> HostProcess:
        """Start a host, or use the host that already runs, and send the configuration to it."""
        process, self._ahead = self._ahead or local_host(logs=self._logs), None
        process.send(self.order())
        return process

    def clear(self) -> None:
        """Remove nothing: a host removes its own directory, and the next `up` a killed host's directory."""

    def order(self) -> bytes:
        """Return the line with the configuration of a host."""
        it = self._hosting
        stands_by = it.settings.has_stand_by
        # Local keepers that stand by for Ray do not run handlers that need GPUs, because such handlers require Ray. The
        # deliveries of these handlers wait while Ray is missing.
        app = Machine.here().share_of(it.app) if it.app and stands_by else it.app
        return LocalOrder(
            cluster_id=it.local_cluster_id,
            environment=it.settings.environment() | environment_of(it.database.dsn),
            is_embedded=it.database.is_embedded,
            metrics_socket=it.metrics_socket,
            app=app.to_json() if app else "",
            beside=it.cluster_id if stands_by else "",
        ).to_json()
