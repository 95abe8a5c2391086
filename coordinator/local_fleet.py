"""Run keepers in processes of this machine.

A fork server starts the processes, so a keeper starts in milliseconds and shares the memory pages of the loaded
modules. A pipe connects the coordinator to each keeper. The coordinator sends a message over the pipe to request a
drain. If the process at one end dies, the process at the other end reads the end of the pipe.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess

import structlog

from shardclock_server.coordinator.fleet import LOCAL, FleetUnavailable, KeeperHandle, new_name
from shardclock_server.coordinator.lost_holders import DIED
from shardclock_server.sql.cluster.holders import LOCAL_NODE

ANSWER_S = 5.0  # A fork takes milliseconds, but the first fork waits for the fork server's imports.
IMPORTS_S = 30.0  # The imports of a fork server take a second, and longer on a busy machine.
END_S = 2.0  # A killed process exits immediately, unless the kernel waits for a disk.
DRAIN = "drain"

# The function that runs in a keeper's process. The function's arguments are the keeper's name, and the keeper's
# connection to the pipe.
KeeperMain = Callable[[str, Connection], None]


class LocalKeeper:
    """A keeper's process, and the coordinator's connection to the pipe of this process.

    The closed pipe reports the end of the process. The process's sentinel is not used, because it also signals when the
    fork server ends.
    """

    def __init__(self, process: ForkServerProcess, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe
        self._why = DIED
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._hear)

    async def watch(self) -> str:
        """Wait until the process has ended."""
        await self._ended.wait()
        return self._why

    async def drain(self) -> None:
        """Ask the keeper to release its leases, and wait for the exit of its process.

        errors:  OSError  the process has ended already
        """
        self._pipe.send(DRAIN)
        await self._ended.wait()

    async def kill(self) -> None:
        """Kill the process, if the process still runs.

        errors:  FleetUnavailable  the process has not ended in time
        """
        if self._ended.is_set():
            return
        assert self._process.pid is not None
        # Not `Process.kill`, which does nothing after the death of the fork server.
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(END_S):
                await self._ended.wait()
        except TimeoutError:
            raise FleetUnavailable(f"process {self._process.pid} was killed, and has not ended") from None

    def _hear(self) -> None:
        try:
            self._why = self._pipe.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._pipe.close()
            self._ended.set()


class LocalFleet:
    """The keepers of one role on this machine.

    All fleets share one fork server. Only the coordinator that started the keepers' processes can find them.
    """

    kind = LOCAL

    def __init__(self, role: str, main: KeeperMain, context: ForkServerContext) -> None:
        self.role = role
        self._main = main
        self._context = context
        self._has_answered = False
        self._silent_since_s: float | None = None

    async def nodes(self) -> list[str]:
        """Name this machine."""
        return [LOCAL_NODE]

    async def found(self) -> dict[str, KeeperHandle]:
        """Return an empty result: the keepers of an earlier coordinator exit without a request."""
        return {}

    async def spawn(self, node_id: str) -> tuple[str, LocalKeeper]:  # noqa: ARG002 - there is one node
        """Start a process under a new name.

        errors:  FleetUnavailable  the fork server gave no answer in time
        """
        name = new_name(self.role)
        ours, theirs = self._context.Pipe()
        # The process is not a daemon, because a worker's process starts the processes of the user's code.
        process = self._context.Process(target=self._main, args=(name, theirs), name=name)
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.to_thread(process.start)
        except (TimeoutError, OSError, EOFError) as error:
            ours.close()
            if type(error) is TimeoutError:
                self._end_frozen_fork_server()
            raise FleetUnavailable(f"no process for {name}: {type(error).__name__}: {error}") from error
        finally:
            theirs.close()
        self._has_answered, self._silent_since_s = True, None
        return name, LocalKeeper(process, ours)

    def _end_frozen_fork_server(self) -> None:
        """Kill the fork server if it does not answer any more; the next `spawn` starts another, and keepers continue.

        A fork server that has not answered yet may still import its modules, so it gets more time.
        """
        now_s = time.monotonic()
        self._silent_since_s = self._silent_since_s or now_s
        if self._has_answered or now_s - self._silent_since_s >= IMPORTS_S:
            structlog.get_logger().warning("the fork server does not answer, and is killed")
            os.kill(_fork_server(), signal.SIGKILL)
            self._has_answered, self._silent_since_s = False, None

    async def ask_for_nodes(self, shards: int) -> None:
        """Do nothing, because a local fleet has one machine."""


def _fork_server() -> int:
    pid: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]  # noqa: SLF001 - multiprocessing has no name for it; tests/coordinator/test_local_fleet.py checks it
    return pid
