"""Restart a host process of `up` after the process has died."""

import time
from collections.abc import Callable

from shardclock.backoff import Backoff
from shardclock_server.cluster.host_events import ALIVE, ENDING, READY, TOLD, WAITING
from shardclock_server.cluster.host_process import HostProcess
from shardclock_server.cluster.hosts import Hosts
from shardclock_server.cluster.restarts import Restarts

# The time within which a started host must be ready; otherwise the host is killed and started again. After each kill,
# the next host gets more time, because the machine may be too busy.
PATIENCE = Backoff(30.0, 240.0)
# A host that sends ALIVE every two seconds, and then is silent for this time, is frozen.
SILENT_S = 15.0
PAUSES = Backoff(1.0, 10.0)  # The pauses before the restarts of a host that dies repeatedly.

STOP_S = 30.0

Tell = Callable[[str], None]


class KeptHost:
    """A host process and its restarts.

    `starts` counts the started processes, and `losses` the processes that ended without a request.

    units:   `rest_s` is the shortest time from the end of a process to the start of the next process
    """

    def __init__(self, hosts: Hosts, *, tell: Tell, rest_s: float = 0.0) -> None:
        self.name = hosts.name
        self.starts = self.losses = 0
        self.is_ready = False
        self.why_not = self._ready_on = ""
        self._alive_at_s: float | None = None
        self._hosts = hosts
        self._tell = tell
        self._process: HostProcess | None = None
        self._restarts = Restarts(PAUSES, least_s=rest_s)

    @property
    def has_failed(self) -> bool:
        """Return whether the process has ended by itself. If it was killed, the result is False: a restart may help."""
        return self._process is not None and self._process.has_ended and not self._process.was_killed

    @property
    def ready_on(self) -> str:
        """Return the node on which Ray's host is ready; "": the host is not ready, is about to end, or has ended."""
        return "" if self._process is None or self._process.output_ended else self._ready_on

    @property
    def outputs(self) -> list[HostProcess]:
        """Return a list for `select`: the process, or nothing if no process can send events."""
        return [] if self._process is None or self._process.output_ended else [self._process]

    def start(self) -> None:
        """Start a process."""
        self.is_ready, self.why_not, self._ready_on, self._alive_at_s = False, "", "", None
        self._restarts.begin()
        self._process = self._hosts.start()
        self.starts += 1

    def tend(self) -> None:
        """Restart the process if it has died or is frozen; call this method regularly."""
        reason = f"{self.name} had died and"
        if self._process is not None and not self.hear(0) and self._is_stuck:
            reason = f"{self.name} was not ready within {self._patience_s:.0f} s: it is killed and"
            self._process.kill()
        elif self._process is not None and self._is_silent and not self._process.has_ended:
            reason = f"{self.name} was silent for {SILENT_S:.0f} s: it is killed and"
            self._process.kill()
        elif self.why_not:
            reason = f"{self.why_not}; it"
        if self._process is not None and self._process.has_ended:
            was_ready = self.is_ready
            self._clear()
            self.losses += 1
            self._tell(f"{reason} is started again in {self._restarts.fail(was_ready=was_ready):.0f} s")
        if self._process is None and self._restarts.is_due:
            self.start()

    def restart_if_killed(self) -> None:
        """Restart the process if a signal has ended it; call this method regularly."""
        if self._process is None or self._process.was_killed:
            self.tend()

    def hear(self, wait_s: float) -> bool:
        """Read events for at most `wait_s` or until the host is ready; return whether the host is ready."""
        if self._process is None:  # no process runs until the pause before the next start is over
            time.sleep(wait_s)
            return False
        for said in self._process.events(0 if self.is_ready else wait_s):
            if said["event"] == READY:
                self.is_ready, self.why_not, self._ready_on = True, "", said["why"]
                return True
            self._learn(said["event"], said["why"])
        return self.is_ready

    def send(self, line: bytes) -> None:
        """Send a line to the host, unless the host has ended."""
        if self._process is not None:
            self._process.send(line)

    def stop(self) -> None:
        """Stop the host after it has released all claims; a second call does nothing."""
        if self._process is None:
            return
        if not self._process.stop(within_s=STOP_S):
            self._tell(f"{self.name} did not stop in time and is killed; leases end by themselves")
        self._clear()

    def _learn(self, event: str, why: str) -> None:
        if event == TOLD:
            self._tell(why)
            return
        if event == ENDING:
            self._ready_on = ""
            return
        if event == ALIVE:
            self._alive_at_s = time.monotonic()
            return
        self.why_not = why
        if event == WAITING:
            self._tell(f"{why}; waiting")

    @property
    def _is_stuck(self) -> bool:
        """Return whether the process takes too long to start, for example because one of Ray's processes died."""
        return not self.is_ready and time.monotonic() - self._restarts.started_at_s > self._patience_s

    @property
    def _is_silent(self) -> bool:
        return self._alive_at_s is not None and time.monotonic() - self._alive_at_s > SILENT_S

    @property
    def _patience_s(self) -> float:
        return PATIENCE.pause_s(max(1, self._restarts.failures))

    def _clear(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process, self.is_ready, self._ready_on = None, False, ""
        self._hosts.clear()
