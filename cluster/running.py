"""A running cluster: the embedded Postgres, the host process of Ray, the gateway and the exporter.

What dies is started again.
"""

import json
import secrets
import select
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shardclock.backoff import Backoff
from shardclock_server.cluster import host
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.exporter import Exporting
from shardclock_server.cluster.failed import ClusterFailed
from shardclock_server.cluster.gateway import GatewayProcess
from shardclock_server.cluster.node import environment_with
from shardclock_server.cluster.restarts import Restarts
from shardclock_server.cluster.scratch import Scratch, short_place
from shardclock_server.cluster.settings import PREFIX, Settings
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
    ) -> None:
        self._settings = settings
        self._app = app
        self._keep_running = keep_running
        self._database = database
        self._tell = tell
        self._logs = logs
        # One cluster id for as long as we run, so that a new host takes the lead from its predecessor at once.
        self._cluster_id = settings.cluster_id or secrets.token_hex(8)
        self._exporting = Exporting(settings, database.dsn, tell=tell, unready=self.unready)
        self._gateway = GatewayProcess(settings, database.dsn, metrics_socket=self._exporting.socket_path, tell=tell)
        self._host: subprocess.Popen[bytes] | None = None
        self._scratches: list[Scratch] = []
        self._ready = False
        self._why_not = ""
        self._output_ended = False
        self._restarts = Restarts(PAUSES)
        self._faults: defaultdict[str, Restarts] = defaultdict(lambda: Restarts(PAUSES))  # of what could not be tended

    def start(self, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start Ray and the coordinator, and wait for them, unless we are told to stop first.

        errors:  ClusterFailed  the host process ended, or was not ready within a minute
        """
        self._exporting.tend()
        self._start_host()
        deadline = time.monotonic() + READY_S
        while not self._hears_ready(TEND_S) and not stopped():
            if self._output_ended or time.monotonic() > deadline:
                self.stop()
                raise ClusterFailed(self._why_not or "Ray did not start: see the log lines above")

    def tend(self) -> None:
        """Restart what has died; call this every `TEND_S`."""
        self._tend_one("Postgres", self._tend_database)
        self._tend_one("the exporter", self._exporting.tend)
        self._tend_one("the HTTP API", self._gateway.tend)
        self._tend_one("Ray", self._tend_host)

    def unready(self) -> list[str]:
        """List what must still happen before timers fire."""
        return [] if self._ready else ["Ray has not started"]

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
        what = "Ray had died"
        if self._host is not None and self._is_stuck():
            what = f"Ray was not ready within {self._patience_s:.0f} s: it is killed"
            self._host.kill()
            self._host.wait()
        if self._host is not None and self._host.poll() is not None:
            was_ready = self._ready
            self._clear_host()
            self._tell(f"{what} and is started again in {self._restarts.fail(was_ready=was_ready):.0f} s")
        if self._host is None and self._restarts.is_due:
            self._start_host()

    def _stop_host(self) -> None:
        if self._host is None:
            return
        assert self._host.stdin is not None
        self._host.stdin.close()
        try:
            self._host.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._tell("the host did not stop in time and is killed; leases run out by themselves")
            self._host.kill()
            self._host.wait()
        self._clear_host()

    def _tend_database(self) -> None:
        if self._database.restart_if_dead():
            self._tell("Postgres had died and was started again")

    def _start_host(self) -> None:
        self._ready, self._output_ended, self._why_not = False, False, ""
        self._restarts.begin()
        scratch = Scratch.make("ray", place=short_place())
        self._scratches.append(scratch)
        # Ray writes the address of the last cluster here, and fails without the directory.
        (scratch.path / "ray").mkdir()
        self._host = subprocess.Popen(
            # -P: a module of the user in the current directory must not replace a library of ours.
            [sys.executable, "-P", "-m", "shardclock_server.cluster.host"],
            bufsize=0,  # otherwise a line could wait in a buffer that select() doesn't see
            pass_fds=[scratch.fileno()],  # the host may outlive us for a moment, and needs the directory until then
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._logs,
            # Ctrl-C in the terminal must reach only us; we then stop the host.
            start_new_session=True,
            env=self._environment(scratch.path),
        )

    def _is_stuck(self) -> bool:
        """Say whether the host hangs, as it may if one of Ray's processes dies while Ray is starting."""
        if self._ready or self._hears_ready(0):
            return False
        return time.monotonic() - self._restarts.started_at_s > self._patience_s

    @property
    def _patience_s(self) -> float:
        return PATIENCE.pause_s(max(1, self._restarts.failures))

    def _hears_ready(self, wait_s: float) -> bool:
        """Listen to the host until it is ready or `wait_s` is over, and pass its messages on to the user."""
        assert self._host is not None
        assert self._host.stdout is not None
        deadline = time.monotonic() + wait_s
        while select.select([self._host.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
            line = self._host.stdout.readline()
            if not line:
                self._output_ended = True
                return False
            said = json.loads(line)
            self._ready = said["event"] == host.READY
            if self._ready:
                return True
            self._why_not = said["why"]
            if said["event"] == host.WAITING:
                self._tell(f"{self._why_not}; waiting")
        return False

    def _environment(self, temp_dir: Path) -> dict[str, str]:
        token = self._settings.ray_auth_token
        return {
            **environment_with(self._database.dsn, self._settings.environment()),
            **({f"{PREFIX}RAY_AUTH_TOKEN": token.get_secret_value()} if token else {}),
            f"{PREFIX}METRICS_SOCKET": self._exporting.socket_path,
            host.CLUSTER_ID: self._cluster_id,
            host.TEMP_DIR: str(temp_dir),
            host.EMBEDDED: "1" if self._database.is_embedded else "0",
            host.KEEP_RUNNING: "1" if self._keep_running else "0",
            host.APP: self._app.to_json() if self._app else "",
        }

    def _clear_host(self) -> None:
        if self._host is not None:
            for pipe in (self._host.stdin, self._host.stdout):
                if pipe is not None:
                    pipe.close()
            self._host, self._ready = None, False
        # Remove all directories each time: an orphan process of a killed Ray may have written to an older one again.
        for scratch in self._scratches:
            scratch.remove()


@contextmanager
def running_cluster(
    settings: Settings,
    database: Database,
    *,
    tell: Tell,
    logs: IO[bytes] | None = None,
    keep_running: bool = False,
    app: App | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[RunningCluster]:
    """Run a cluster during a block, and stop it in order at the block's end; with `keep_running` it stays in its Ray.

    If `stopped` becomes true during the start, the block begins at once.

    errors:  ClusterFailed  it doesn't come up
    """
    cluster = RunningCluster(settings, database, tell=tell, logs=logs, keep_running=keep_running, app=app)
    try:
        cluster.start(stopped=stopped)
        yield cluster
    finally:
        cluster.stop()
