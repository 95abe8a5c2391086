"""A process of the user's code as a child of the worker (docs/decisions/0079-local-processes.md)."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from subprocess import DEVNULL, Popen
from typing import Any

from shardclock.executor.threads import in_a_thread
from shardclock.reason import one_line
from shardclock_server.workers.call_socket import LOST_S, CallSocket
from shardclock_server.workers.interpreter import Interpreter
from shardclock_server.workers.process_exit import describe_exit_code
from shardclock_server.workers.user_process import NotCalled, ProcessDied

CLOSED_S = 1.0  # The time from the close of the socket within which the process must end.


class LocalProcess:
    """A child in its own process group, so that the terminal's Ctrl-C does not end the child.

    The child prints to the worker's stdout and stderr, and reads an empty stdin. The kernel kills the child when the
    thread that started it ends, so the worker's event loop must run in that thread.
    """

    def __init__(
        self, kind: str, *order: str, owner: str, num_cpus: float | None, python: Interpreter | None = None
    ) -> None:
        self.owner = owner
        self._loop = asyncio.get_running_loop()
        self._exit_reason: asyncio.Future[str] = self._loop.create_future()
        self._calls: CallSocket | None = None
        self._socket, child_end = socket.socketpair()
        self._socket.setblocking(False)
        try:
            with child_end:
                threads = max(1, int(num_cpus or 1))
                self._child = _started(python or Interpreter.ours(), kind, child_end.fileno(), *order, threads=threads)
        except OSError:
            self._socket.close()
            raise
        self._watch()

    async def connected(self) -> CallSocket:
        """Wait until the user's code is imported, and return the socket.

        errors:  ProcessDied  the import failed, or the process has ended
        """
        _, calls = await self._loop.create_unix_connection(CallSocket, sock=self._socket)
        self._calls = calls
        greeting = asyncio.create_task(calls.accepts_calls())
        ends: list[asyncio.Future[Any]] = [greeting, self._exit_reason]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            greeting.cancel()
        if greeting.done() and greeting.result():
            return calls
        if calls.refusal is not None:
            self.kill()
            raise ProcessDied(one_line(f"the {self.owner}'s process does not start: {calls.refusal}"))
        raise await self._died(within_s=LOST_S)

    async def ready(self) -> None:
        """Raise the reason why the socket is closed.

        errors:  ProcessDied  the process has ended, or the user's code has closed the socket
        """
        raise await self._died(within_s=CLOSED_S)

    async def answer(self, call: bytes) -> bytes:  # noqa: ARG002 - calls use the socket
        """Raise an error: the process accepts calls only over the socket.

        errors:  NotCalled  always
        """
        raise NotCalled

    async def gone(self) -> None:
        """Wait until the process has ended, then raise ProcessDied.

        errors:  ProcessDied  the process has ended
        """
        raise await self._died(within_s=None)

    def kill(self) -> None:
        """Kill the process group: the process and its forks."""
        if not self._exit_reason.done():
            self._end_group()
            self._exit_reason.set_result(f"the {self.owner}'s process was killed by its worker")
        if self._calls is None:
            self._socket.close()
        else:
            self._calls.close()

    async def _died(self, *, within_s: float | None) -> ProcessDied:
        await asyncio.wait([self._exit_reason], timeout=within_s)
        if self._exit_reason.done():
            return ProcessDied(self._exit_reason.result())
        return ProcessDied(f"the {self.owner}'s process has closed its socket", may_live=True)

    def _watch(self) -> None:
        """Watch for the end of the process with a pidfd, or with a thread if the system has no pidfds."""
        try:
            descriptor = os.pidfd_open(self._child.pid)
        except (AttributeError, OSError):
            self._watching = self._loop.create_task(self._wait())
        else:
            self._loop.add_reader(descriptor, self._record_exit, descriptor)

    async def _wait(self) -> None:
        await in_a_thread(self._child.wait)
        self._record_exit(None)

    def _record_exit(self, descriptor: int | None) -> None:
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._end_group()  # kill before `wait`: after `wait` another process can get the same process id
        code = self._child.wait()
        if not self._exit_reason.done():
            self._exit_reason.set_result(describe_exit_code(code, owner=self.owner))

    def _end_group(self) -> None:
        for kill in (os.killpg, os.kill):  # the child may have left its process group
            with suppress(ProcessLookupError, PermissionError):
                kill(self._child.pid, signal.SIGKILL)


def _started(python: Interpreter, kind: str, descriptor: int, *order: str, threads: int) -> Popen[bytes]:
    # Limit the threads of numerical libraries, as Ray does. By default these libraries start one thread per processor
    # in each process.
    environment = {"OMP_NUM_THREADS": str(threads)} | python.environment()
    command = python.command("shardclock.executor", kind, str(descriptor), *order)
    return Popen(command, stdin=DEVNULL, pass_fds=[descriptor], process_group=0, env=environment)
