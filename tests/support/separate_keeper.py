"""Run one keeper in a separate process, so that a test can kill or freeze it.

The process exits with 0 after a drain (SIGTERM), and with `HOLDER_ENDED` when its holder was ended.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import IO

import structlog

from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.keepers.keeper import Keeper
from tests.support.factories import BOUND_S

HOLDER_ENDED = 3


class SeparateKeeper:
    """The process of one keeper; its arguments are the holder and the words."""

    def __init__(
        self,
        holder: int,
        module: str,
        *words: str,
        stdout: int = DEVNULL,
        build: Path | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        self.holder = holder
        self._process = Popen(
            [sys.executable, "-m", module, str(holder), *words],
            stdin=DEVNULL,
            stdout=stdout,
            stderr=log,
            text=True,
            cwd=build,  # Python looks here first, so the keeper may run another build than the test
        )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill the process as `kill -9` does, and wait for its end; a worker's children then end by themselves."""
        self._process.kill()
        self._process.wait(BOUND_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


def log_to_stderr() -> None:
    """Send the log to stderr; call this before the keeper is made, because a keeper makes its logger at once."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


async def run_until_drained(keeper: Keeper) -> int:
    """Run a keeper in this process until SIGTERM drains it; return the exit status."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(keeper.drain()))
    try:
        await keeper.run()
    except HolderEnded:
        return HOLDER_ENDED
    return 0
