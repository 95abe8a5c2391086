"""A running cluster: the embedded Postgres, the host process, the gateway and the exporter.

What dies is started again.
"""

import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from shardclock.backoff import Backoff
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.exporter import Exporting
from shardclock_server.cluster.failed import ClusterFailed
from shardclock_server.cluster.gateway import GatewayProcess
from shardclock_server.cluster.host_events import READY, WAITING
from shardclock_server.cluster.host_process import HostProcess
from shardclock_server.cluster.hosts import Hosting, Hosts, LocalHosts, RayHosts
from shardclock_server.cluster.restarts import Restarts
from shardclock_server.cluster.settings import Settings
from shardclock_server.embedded.server import EmbeddedPostgresError
from shardclock_server.workers.app import App

READY_S = 60.0
# A restarted host that isn't ready by then is killed and started again. The next has longer: the machine may be too
# busy for one to start in that time.
PATIENCE = Backoff(30.0, 240.0)
STOP_S = 30.0
PAUSES = Backoff(1.0, 10.0)  # before a host that keeps dying is started again
TEND_S = 0.2

Tell = Callable[[str], None]


class RunningCluster:
    """Keep one host process, one database, one gateway and one exporter running."""

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
        # One cluster id for as long as we run, so that a new host takes the lead from its predecessor at once.
        cluster_id = settings.cluster_id or secrets.token_hex(8)
        hosting = Hosting(settings, database, cluster_id, self._exporting.socket_path, keep_running, app)
        self._hosts: Hosts = (
            LocalHosts(hosting, logs=logs, ahead=ahead) if settings.local else RayHosts(hosting, logs=logs)
        )
        self._host: HostProcess | None = None
        self._ready = False
        self._why_not = ""
        self._restarts = Restarts(PAUSES)
        self._faults: defaultdict[str, Restarts] = defaultdict(lambda: Restarts(PAUSES))  # of what could not be tended

    def start(self, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start the host and the coordinator, and wait for them, unless we are told to stop first.

        errors:  ClusterFailed  the host process ended, or was not ready within a minute
        """
        self._exporting.tend()
        self._start_host()
        deadline = time.monotonic() + READY_S
        while not self._hears_ready(TEND_S) and not stopped():
            if self._has_no_more_to_tell or time.monotonic() > deadline:
                self.stop()
                raise ClusterFailed(self._why_not or f"{self._hosts.name} did not start: see the log lines above")

    def tend(self) -> None:
        """Restart what has died; call this every `TEND_S`."""
        self._tend_one("Postgres", self._tend_database)
        self._tend_one("the exporter", self._exporting.tend)
        self._tend_one("the HTTP API", self._gateway.tend)
        self._tend_one(self._hosts.name, self._tend_host)

    def unready(self) -> list[str]:
        """List what must still happen before timers fire."""
        return [] if self._ready else [f"{self._hosts.name} has not started"]

    def stop(self) -> None:
        """Let the host hand everything back and end; a second call does nothing."""
        self._gateway.stop()
        self._stop_host()
        self._exporting.stop()

    def _tend_one(self, what: str, tend: Callable[[], None]) -> None:
        """Tend one, or try it again later: that the machine is out of memory, disk or processes must end no other."""
        if not self._faults[what].is_due:
            return
        try:
            tend()
        except (EmbeddedPostgresError, OSError) as error:
            pause_s = self._faults[what].fail(was_ready=False)
            self._tell(f"{what} can't be started ({error}); trying again in {pause_s:.0f} s")
        else:
            del self._faults[what]

    def _tend_host(self) -> None:
        what = f"{self._hosts.name} had died"
        if self._host is not None and self._is_stuck():
            what = f"{self._hosts.name} was not ready within {self._patience_s:.0f} s: it is killed"
            self._host.kill()
        if self._host is not None and self._host.has_ended:
            was_ready = self._ready
            self._clear_host()
            self._tell(f"{what} and is started again in {self._restarts.fail(was_ready=was_ready):.0f} s")
        if self._host is None and self._restarts.is_due:
            self._start_host()

    def _stop_host(self) -> None:
        if self._host is None:
            return
        if not self._host.stop(within_s=STOP_S):
            self._tell("the host did not stop in time and is killed; leases run out by themselves")
        self._clear_host()

    def _tend_database(self) -> None:
        if self._database.restart_if_dead():
            self._tell("Postgres had died and was started again")

    def _start_host(self) -> None:
        self._ready, self._why_not = False, ""
        self._restarts.begin()
        self._host = self._hosts.start()

    def _is_stuck(self) -> bool:
        """Say whether the host hangs, as it may if one of Ray's processes dies while Ray is starting."""
        if self._ready or self._hears_ready(0):
            return False
        return time.monotonic() - self._restarts.started_at_s > self._patience_s

    @property
    def _patience_s(self) -> float:
        return PATIENCE.pause_s(max(1, self._restarts.failures))

    @property
    def _has_no_more_to_tell(self) -> bool:
        return self._host is not None and self._host.output_ended

    def _hears_ready(self, wait_s: float) -> bool:
        """Listen to the host until it is ready or `wait_s` is over, and pass its messages on to the user."""
        assert self._host is not None
        for said in self._host.events(wait_s):
            self._ready = said["event"] == READY
            if self._ready:
                return True
            self._why_not = said["why"]
            if said["event"] == WAITING:
                self._tell(f"{self._why_not}; waiting")
        return False

    def _clear_host(self) -> None:
        if self._host is not None:
            self._host.close()
            self._host, self._ready = None, False
        self._hosts.clear()


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
    """Run a cluster during a block, and stop it in order at the block's end; with `keep_running` it stays in its Ray.

    If `stopped` becomes true during the start, the block begins at once.

    errors:  ClusterFailed  it doesn't come up
    """
    cluster = RunningCluster(settings, database, tell=tell, logs=logs, keep_running=keep_running, app=app, ahead=ahead)
    try:
        cluster.start(stopped=stopped)
        yield cluster
    finally:
        cluster.stop()
