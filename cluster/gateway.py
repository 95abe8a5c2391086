"""Run a cluster's gateway in a separate process, and restart the process when it has ended.

The gateway ends when its standard input ends, so it ends together with `up`.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from shardclock.backoff import Backoff
from shardclock_server.cluster import logs
from shardclock_server.cluster.end_of_input import wait_for_end_of_input
from shardclock_server.cluster.node import environment_with
from shardclock_server.cluster.restarts import Restarts
from shardclock_server.cluster.settings import PREFIX, InvalidSettings, Settings, load_settings
from shardclock_server.gateway.settings import CannotServe
from shardclock_server.sql.dsn import Dsn

PAUSES = Backoff(1.0, 60.0)
STOP_S = 15.0
MODULE = "shardclock_server.cluster.gateway"
METRICS_SOCKET = f"{PREFIX}METRICS_SOCKET"


class GatewayProcess:
    """Keep a gateway running; each failed start makes the pause before a restart longer."""

    def __init__(
        self, settings: Settings, dsn: Dsn, *, metrics_socket: str | None = None, tell: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._metrics_socket = metrics_socket
        self._dsn = dsn
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = Restarts(PAUSES)

    @property
    def pid(self) -> int | None:
        """Return the process id of the gateway; None: the gateway does not run."""
        return None if self._process is None else self._process.pid

    def kill(self) -> None:
        """Kill the gateway, in the same way as a crash."""
        assert self._process is not None
        self._process.kill()

    def tend(self) -> None:
        """Start the gateway if it does not run and the pause after its last failure is over; call this regularly."""
        if not self._settings.gateway_enabled:
            return
        if self._process is not None and self._process.poll() is not None:
            self._forget()
            pause_s = self._restarts.fail()
            self._tell(f"the HTTP API has ended and is started again in {pause_s:.0f} s; timers fire without it")
        if self._process is None and self._restarts.is_due:
            self._restarts.begin()
            self._process = subprocess.Popen(
                # -P: a user's module in the current directory must not replace one of our libraries.
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stdout=sys.stderr,
                # Ctrl-C in the terminal must reach only `up`, which then stops the gateway.
                start_new_session=True,
                env=self._environment(),
            )

    def stop(self) -> None:
        """Stop the gateway after it has answered the running requests; a second call does nothing."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None

    def _environment(self) -> dict[str, str]:
        return {
            **environment_with(self._settings.environment(), self._dsn),
            **({METRICS_SOCKET: self._metrics_socket} if self._metrics_socket else {}),
        }


def main() -> int:
    """Serve the database that the environment names, until a signal stops the gateway or `up` ends."""
    # imported here, because `up` does not need these modules, and the import takes a second
    from shardclock_server.gateway.serving import run

    logs.configure()
    settings = load_settings()
    dsn = settings.find_dsn()
    if dsn is None:
        raise InvalidSettings(
            "SHARDCLOCK_DSN must name the database; `shardclock gateway` starts the embedded database"
        )
    threading.Thread(target=_stop_at_end_of_input, name="input", daemon=True).start()
    try:
        run(settings.gateway, dsn, tell=_tell)
    except CannotServe as error:
        _tell(str(error))
        return 1
    return 0


def _stop_at_end_of_input() -> None:
    wait_for_end_of_input()
    os.kill(os.getpid(), signal.SIGTERM)


def _tell(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
