"""A running cluster: embedded Postgres, host processes, gateway and exporter; dead processes are restarted."""

import secrets
import select
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from shardclock_server.cluster.database import Database
from shardclock_server.cluster.exporter import Exporting
from shardclock_server.cluster.failed import ClusterFailed
from shardclock_server.cluster.gateway import GatewayProcess
from shardclock_server.cluster.host_events import LOST, found
from shardclock_server.cluster.host_process import HostProcess
from shardclock_server.cluster.hosts import Hosting, LocalHosts, RayHosts
from shardclock_server.cluster.kept_host import PAUSES, KeptHost, Tell
from shardclock_server.cluster.restarts import Restarts
from shardclock_server.cluster.settings import Settings
from shardclock_server.embedded.server import EmbeddedPostgresError
from shardclock_server.workers.app import App

READY_S = 60.0
TEND_S = 0.2
# The shortest time from a loss of Ray to the start of the next Ray. The local keepers must take over first, because
# Ray's start uses all processors of a small machine for seconds.
TAKEOVER_S = 2.0


class RunningCluster:
    """The processes of a running cluster: a database, a gateway, an exporter, and the hosts of the keepers.

    The keepers have a host of Ray, a host of local keepers, or both. If both hosts exist, the local keepers fire timers
    while Ray's keepers are missing.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        tell: Tell,
        logs: IO[bytes] | None = None,
        keep_running: bool = False,
        app: App | None = None,
        ahead: HostProcess | None = None,
    ) -> None:
        self._database = database
        self._tell = tell
        self._exporting = Exporting(settings, database.dsn, tell=tell, unready=self.unready)
        self._gateway = GatewayProcess(settings, database.dsn, metrics_socket=self._exporting.socket_path, tell=tell)
        # The cluster id stays the same while `up` runs, so that a new host immediately replaces its predecessor as the
        # leader.
        cluster_id = settings.cluster_id or secrets.token_hex(8)
        hosting = Hosting(settings, database, cluster_id, self._exporting.socket_path, keep_running, app)
        self._local = self._ray = None
        if settings.local or settings.has_stand_by:
            self._local = KeptHost(LocalHosts(hosting, logs=logs, ahead=ahead), tell=tell)
        if not settings.local:
            rest_s = TAKEOVER_S if settings.has_stand_by else 0.0
            self._ray = KeptHost(RayHosts(hosting, logs=logs), tell=tell, rest_s=rest_s)
        # In the order of their start: the local keepers must not wait for Ray.
        self._hosts = [host for host in (self._local, self._ray) if host is not None]
        # The state at the last message to the local host: how often the local host was started, how often Ray's host
        # was lost, and the node on which Ray's host is ready.
        self._told = (0, 0, "")
        # the keys are the names of processes
        self._faults: defaultdict[str, Restarts] = defaultdict(lambda: Restarts(PAUSES))

    def start(self, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start the first host, and wait until its keepers can fire timers or a stop is requested.

        If the host is killed, another host is started.

        errors:  ClusterFailed  the host process ended by itself, or no host was ready within a minute
        """
        self._exporting.tend()
        first = self._hosts[0]
        first.start()
        self._tell_local()
        deadline = time.monotonic() + READY_S
        while not first.hear(TEND_S) and not stopped():
            if first.has_failed or time.monotonic() > deadline:
                self.stop()
                raise ClusterFailed(first.why_not or f"{first.name} did not start: see the log lines above")
            first.restart_if_killed()

    def tend(self) -> None:
        """Restart dead processes; call this method every `TEND_S`."""
        # Handle Ray's host first, so that the local keepers learn of its end without delay.
        for host in reversed(self._hosts):
            self._tend_one(host.name, host.tend)
        self._tell_local()
        self._tend_one("Postgres", self._tend_database)
        self._tend_one("the exporter", self._exporting.tend)
        self._tend_one("the HTTP API", self._gateway.tend)

    def wait(self, wait_s: float) -> None:
        """Wait until a host reports an event or ends, for at most `wait_s`.

        If Ray's host ends, the method tells the local host, so that the local keepers take over. The takeover must not
        wait for polls or for the removal of Ray's files.
        """
        select.select([output for host in self._hosts for output in host.outputs], [], [], wait_s)
        for host in self._hosts:
            if host.outputs:
                host.hear(0)
        self._tell_local()

    def unready(self) -> list[str]:
        """List the reasons why timers can't fire yet; empty when a host is ready."""
        is_ready = any(host.is_ready for host in self._hosts)
        return [] if is_ready else [f"{self._hosts[0].name} has not started"]

    def stop(self) -> None:
        """Stop the hosts after they have released all claims; a second call does nothing."""
        self._gateway.stop()
        # The local host stops first, because it would become the leader when Ray's coordinator stops.
        for host in self._hosts:
            host.stop()
        self._exporting.stop()

    def _tell_local(self) -> None:
        """Tell the local host whether Ray's host is ready, after each start of the local host and after each change."""
        if self._local is None or self._ray is None:
            return
        node_id = self._ray.ready_on
        now = (self._local.starts, self._ray.losses, node_id)
        if now != self._told:
            self._local.send(found(node_id) if node_id else LOST)
        self._told = now

    def _tend_one(self, part: str, tend: Callable[[], None]) -> None:
        """Call the `tend` of one process. If this process can't be started, the next try follows after a pause."""
        if not self._faults[part].is_due:
            return
        try:
            tend()
        except (EmbeddedPostgresError, OSError) as error:
            pause_s = self._faults[part].fail(was_ready=False)
            self._tell(f"{part} can't be started ({error}); trying again in {pause_s:.0f} s")
        else:
            del self._faults[part]

    def _tend_database(self) -> None:
        if self._database.restart_if_dead():
            self._tell("Postgres had died and was started again")


@contextmanager
def running_cluster(
    settings: Settings,
    database: Database,
    *,
    tell: Tell,
    logs: IO[bytes] | None = None,
    keep_running: bool = False,
    app: App | None = None,
    ahead: HostProcess | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[RunningCluster]:
    """Run a cluster during a block, and stop the cluster at the block's end.

    With `keep_running`, the keepers in a named Ray cluster continue after the block.

    If `stopped` returns true during the start, the block begins immediately.

    errors:  ClusterFailed  the cluster doesn't start
    """
    cluster = RunningCluster(settings, database, tell=tell, logs=logs, keep_running=keep_running, app=app, ahead=ahead)
    try:
        cluster.start(stopped=stopped)
        yield cluster
    finally:
        cluster.stop()
