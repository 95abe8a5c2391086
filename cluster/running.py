"""A running cluster: Postgres if it is ours, and the process that carries Ray. Whatever of it dies is started again."""

import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cluster import host
from cluster.database import Database
from cluster.embedded import EmbeddedPostgresError
from cluster.exporting import Exporting
from cluster.settings import PREFIX, Settings

READY_S = 60.0
RESTARTED_S = 30.0  # a host started again that isn't ready by then is started anew
STOP_S = 30.0
RESTART_MAX_S = 10.0  # longest pause before a host that keeps dying is started again
STEADY_S = 60.0  # a host that lived this long did not die of its start: no pause is due
TEND_S = 0.2

Tell = Callable[[str], None]


class ClusterFailed(Exception):
    """The cluster doesn't come up; the message says what was tried."""


class RunningCluster:
    """Tend one host process, one database and one exporter."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        tell: Tell,
        logs: IO[bytes] | None = None,
        keep_running: bool = False,
    ) -> None:
        self._settings = settings
        self._keep_running = keep_running
        self._database = database
        self._tell = tell
        self._logs = logs
        # One identity for as long as we run: a new host takes the lead from its predecessor at once.
        self._cluster_id = settings.cluster_id or secrets.token_hex(8)
        self._exporting = Exporting(settings, database.dsn, tell=tell, unready=self.unready)
        self._host: subprocess.Popen[bytes] | None = None
        self._temp_dirs: list[Path] = []
        self._ready = False
        self._started_at = 0.0
        self._failures = 0
        self._start_at = 0.0

    def start(self) -> None:
        """Start Ray and the coordinator, and wait for them.

        errors:  ClusterFailed  the host process ended, or said nothing for a minute
        """
        self._exporting.tend()
        self._start_host()
        if not self._hears_ready(READY_S):
            self.stop()
            raise ClusterFailed(f"Ray did not start within {READY_S:.0f} s: see the log lines above")

    def tend(self) -> None:
        """Start again what has died; call this every `TEND_S`."""
        self._tend_database()
        self._exporting.tend()
        if self._host is not None and self._is_stuck():
            self._host.kill()
            self._host.wait()
        if self._host is not None and self._host.poll() is not None:
            self._clear_host()
            self._start_at = time.monotonic() + self._pause_s()
        if self._host is None and time.monotonic() >= self._start_at:
            self._start_host()

    def unready(self) -> list[str]:
        """Say what is still to come before timers fire."""
        return [] if self._ready else ["Ray has not started"]

    def stop(self) -> None:
        """Let the host hand everything back, and end it; a second call does nothing."""
        self._stop_host()
        self._exporting.stop()

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
        try:
            if self._database.restart_if_dead():
                self._tell("Postgres had died and was started again")
        except EmbeddedPostgresError as error:
            self._tell(f"{error}; trying again")

    def _pause_s(self) -> float:
        """Say how long to wait before a dead host is started again: at first not at all, then ever longer."""
        if time.monotonic() - self._started_at > STEADY_S:
            self._failures = 0
        pause_s = min(2.0**self._failures - 1, RESTART_MAX_S)
        self._failures += 1
        self._tell(f"Ray had died and is started again in {pause_s:.0f} s")
        return pause_s

    def _start_host(self) -> None:
        self._ready, self._started_at = False, time.monotonic()
        temp_dir = Path(tempfile.mkdtemp(prefix="shardclock-ray-"))
        self._temp_dirs.append(temp_dir)
        # Ray writes the address of the last cluster here; without the directory it would fail.
        (temp_dir / "ray").mkdir()
        self._host = subprocess.Popen(
            [sys.executable, "-m", "cluster.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._logs,
            # A Ctrl-C in the terminal is ours to hear; the host hears from us.
            start_new_session=True,
            env=self._environment(temp_dir),
        )

    def _is_stuck(self) -> bool:
        """Say whether the host waits for good: what died while Ray was starting can leave it so."""
        if self._ready or self._hears_ready(0):
            return False
        return time.monotonic() - self._started_at > RESTARTED_S

    def _hears_ready(self, wait_s: float) -> bool:
        assert self._host is not None
        assert self._host.stdout is not None
        answered, _, _ = select.select([self._host.stdout], [], [], wait_s)
        self._ready = bool(answered) and host.READY.encode() in self._host.stdout.readline()
        return self._ready

    def _environment(self, temp_dir: Path) -> dict[str, str]:
        settings = self._settings.model_dump(
            mode="json", exclude_none=True, exclude={"ray_auth_token", "dsn", "metrics_socket"}
        )
        token = self._settings.ray_auth_token
        return {
            **os.environ,
            **{f"{PREFIX}{name.upper()}": str(value) for name, value in settings.items()},
            **({f"{PREFIX}RAY_AUTH_TOKEN": token.get_secret_value()} if token else {}),
            f"{PREFIX}DSN": self._database.dsn,
            f"{PREFIX}METRICS_SOCKET": self._exporting.socket_path,
            host.CLUSTER_ID: self._cluster_id,
            host.TEMP_DIR: str(temp_dir),
            host.EMBEDDED: "1" if self._database.is_embedded else "0",
            host.KEEP_RUNNING: "1" if self._keep_running else "0",
        }

    def _clear_host(self) -> None:
        if self._host is not None:
            for pipe in (self._host.stdin, self._host.stdout):
                if pipe is not None:
                    pipe.close()
            self._host = None
        # All of them, each time: an orphan of a Ray that was killed may have written to its own once more.
        for temp_dir in self._temp_dirs:
            shutil.rmtree(temp_dir, ignore_errors=True)


@contextmanager
def running_cluster(
    settings: Settings,
    database: Database,
    *,
    tell: Tell,
    logs: IO[bytes] | None = None,
    keep_running: bool = False,
) -> Iterator[RunningCluster]:
    """Run a cluster for the length of a block, and stop it in order at its end, unless Ray is to keep it running.

    errors:  ClusterFailed  it doesn't come up
    """
    cluster = RunningCluster(settings, database, tell=tell, logs=logs, keep_running=keep_running)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
