"""The interface of `up` to a host process.

This module has few imports, because it starts a host of local keepers before the command line imports its own modules.
The imports of the command line take longer than all other steps before the first firing.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from shardclock_server.cluster.host_events import STOP
from shardclock_server.cluster.node import environment_with

LOCAL_HOST = "shardclock_server.cluster.local_host"
STOP_S = 5.0  # A host that still waits for its configuration must end within this time after a stop request.

_ahead: list["HostProcess"] = []


class HostProcess:
    """A host process. A host writes events to standard output, and releases all claims when its standard input ends.

    With `with_group`, the other processes of its process group are killed after the process has ended.
    """

    def __init__(
        self,
        module: str,
        environment: Mapping[str, str],
        *,
        logs: IO[bytes] | None,
        pass_fds: Sequence[int] = (),
        with_group: bool = False,
    ) -> None:
        self.output_ended = False
        self._with_group = with_group
        self._process = subprocess.Popen(
            # -P: a module of the user in the current directory must not replace one of Shardclock's libraries.
            [sys.executable, "-P", "-m", module],
            bufsize=0,  # select() does not see a line that waits in a buffer
            pass_fds=pass_fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=logs,
            # Ctrl-C in the terminal must reach only `up`, which then stops the host.
            start_new_session=True,
            env=environment,
        )

    def fileno(self) -> int:
        """Return the descriptor of the host's output, for `select`."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.returncode is not None or self._status() is not None

    @property
    def was_killed(self) -> bool:
        """Return whether a signal has ended the process."""
        status = self._status() if self._process.returncode is None else None
        return status is not None and status.si_code in (os.CLD_KILLED, os.CLD_DUMPED)

    def send(self, line: bytes) -> None:
        """Send a line to the host; do nothing if the host has ended, because `has_ended` reports the end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # one of the pipe's two ends is closed
            self._process.stdin.write(line + b"\n")

    def events(self, wait_s: float) -> Iterator[Mapping[str, str]]:
        """Yield the events of the host until `wait_s` is over, or the host's output ends."""
        assert self._process.stdout is not None
        if self.output_ended:
            time.sleep(wait_s)
            return
        deadline = time.monotonic() + wait_s
        while select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
            line = self._process.stdout.readline()
            if not line:
                self.output_ended = True
                return
            yield json.loads(line)

    def stop(self, *, within_s: float) -> bool:
        """Stop the host after it has released all claims; return False if the host was killed after a timeout."""
        assert self._process.stdin is not None
        self.send(STOP)
        self._process.stdin.close()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._reap()

    def close(self) -> None:
        """Free the resources of the ended process."""
        self._reap()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _status(self) -> os.waitid_result | None:
        # WNOWAIT keeps the ended process in the process table. So no other process gets its id before `_reap` kills the
        # group.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def _reap(self) -> None:
        if self._process.returncode is not None:
            return
        if self._with_group:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def local_host(*, logs: IO[bytes] | None = None) -> HostProcess:
    """Start a host of local keepers; the host waits for its configuration."""
    # The group is killed because a frozen fork server does not notice the end of its host. Keepers are not killed with
    # the host: each keeper has its own process group.
    return HostProcess(LOCAL_HOST, environment_with({}), logs=logs, with_group=True)


def start_local_host_ahead() -> None:
    """Start a host before this process loads the other modules of `up`."""
    _ahead.append(local_host())


@contextmanager
def local_host_ahead(*, is_local: bool) -> Iterator[HostProcess | None]:
    """Start a host of local keepers before a block.

    After the block, stop the host if `up` has not sent a configuration to it.
    """
    started = _ahead.pop() if _ahead else None
    process = started or local_host() if is_local else started
    try:
        yield process
    finally:
        if process is not None:
            process.stop(within_s=STOP_S)
            process.close()
