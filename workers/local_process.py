"""A process of the user's code that the worker starts itself, as its child (docs/decisions/0079-local-processes.md)."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from subprocess import DEVNULL, Popen
from typing import Any

from shardclock.executor.threads import in_a_thread
from shardclock.reason import one_line
from shardclock_server.workers.call_socket import LOST_S, CallSocket
from shardclock_server.workers.ended import sentence_of_exit
from shardclock_server.workers.python_environment import for_our_python
from shardclock_server.workers.user_process import NotCalled, ProcessDied

CLOSED_S = 1.0  # for the end of a process that has closed its socket


class LocalProcess:
    """A child with a process group of its own, which the terminal's Ctrl-C does not reach.

    The child prints to the worker's stdout and stderr, and reads an empty stdin. The kernel kills it when the thread
    that started it ends: the worker's event loop must run in that thread.
    """

    def __init__(self, kind: str, *order: str, whose: str, num_cpus: float | None) -> None:
        self.whose = whose
        self._loop = asyncio.get_running_loop()
        self._how: asyncio.Future[str] = self._loop.create_future()
        self._calls: CallSocket | None = None
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        try:
            with theirs:
                self._child = _started(kind, theirs.fileno(), *order, threads=max(1, int(num_cpus or 1)))
        except OSError:
            self._ours.close()
            raise
        self._watch()

    async def connected(self) -> CallSocket:
        """Wait until the user's code is imported, and return the socket to it.

        errors:  ProcessDied  it can't be imported, or has ended
        """
        _, calls = await self._loop.create_unix_connection(CallSocket, sock=self._ours)
        self._calls = calls
        greeting = asyncio.create_task(calls.is_greeted())
        ends: list[asyncio.Future[Any]] = [greeting, self._how]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            greeting.cancel()
        if greeting.done() and greeting.result():
            return calls
        if calls.refusal is not None:
            self.kill()
            raise ProcessDied(one_line(f"the {self.whose}'s process does not start: {calls.refusal}"))
        raise await self._died(within_s=LOST_S)

    async def ready(self) -> None:
        """Say why its socket is closed.

        errors:  ProcessDied  it has ended, or the user's code has closed its socket
        """
        raise await self._died(within_s=CLOSED_S)

    async def answer(self, call: bytes) -> bytes:  # noqa: ARG002 - a call is made by the socket alone
        """Call nothing: the socket is the only way.

        errors:  NotCalled  always
        """
        raise NotCalled

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone.

        errors:  ProcessDied  it has ended
        """
        raise await self._died(within_s=None)

    def kill(self) -> None:
        """End the process, and those that it has forked."""
        if not self._how.done():
            self._end_group()
            self._how.set_result(f"the {self.whose}'s process was killed by its worker")
        if self._calls is None:
            self._ours.close()
        else:
            self._calls.close()

    async def _died(self, *, within_s: float | None) -> ProcessDied:
        await asyncio.wait([self._how], timeout=within_s)
        if self._how.done():
            return ProcessDied(self._how.result())
        return ProcessDied(f"the {self.whose}'s process has closed its socket", may_live=True)

    def _watch(self) -> None:
        """Hear of its end from the kernel; a thread waits for it if the system has no descriptors of processes."""
        try:
            descriptor = os.pidfd_open(self._child.pid)
        except (AttributeError, OSError):
            self._watching = self._loop.create_task(self._wait())
        else:
            self._loop.add_reader(descriptor, self._take_end, descriptor)

    async def _wait(self) -> None:
        await in_a_thread(self._child.wait)
        self._take_end(None)

    def _take_end(self, descriptor: int | None) -> None:
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._end_group()  # before `wait`: until then no other process can have its number
        code = self._child.wait()
        if not self._how.done():
            self._how.set_result(sentence_of_exit(code, whose=self.whose))

    def _end_group(self) -> None:
        for kill in (os.killpg, os.kill):  # the child itself may have left its group
            with suppress(ProcessLookupError, PermissionError):
                kill(self._child.pid, signal.SIGKILL)


def _started(kind: str, descriptor: int, *order: str, threads: int) -> Popen[bytes]:
    # Ray sets the number of threads of numerical libraries, too: else each process would use all processors.
    environment = {"OMP_NUM_THREADS": str(threads)} | for_our_python(os.environ)
    command = [sys.executable, "-P", "-m", "shardclock.executor", kind, str(descriptor), *order]
    return Popen(command, stdin=DEVNULL, pass_fds=[descriptor], process_group=0, env=environment)
