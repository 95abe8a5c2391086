"""The worker's interface to a process of the user's code."""

from contextlib import suppress
from typing import Protocol

import structlog

from shardclock.executor.frames import IS_ALIVE
from shardclock_server.workers.call_socket import CallSocket, NotSent, SocketLost


class ProcessDied(Exception):
    """A process of the user's code has ended; the message contains the cause, if it is known.

    `may_live`: the process may still run, because only the connection was lost, or because the process answered with an
    error.
    """

    def __init__(self, how: str, *, may_live: bool = False) -> None:
        super().__init__(how)
        self.may_live = may_live


class NotCalled(Exception):
    """The worker could not reach the process, so the user's function was not called."""


class StartedProcess(Protocol):
    """A process that Ray or the worker has started.

    `owner` is "handler" or "run"; messages about the end of the process contain this word.
    """

    owner: str

    async def connected(self) -> CallSocket | None:
        """Wait until the user's code is imported, and return the socket; None: there is no socket.

        errors:  ProcessDied  the import failed, or the process has ended
        """

    async def ready(self) -> None:
        """Wait until the process answers without its socket.

        errors:  ProcessDied  the process has ended
        """

    async def answer(self, call: bytes) -> bytes:
        """Call the process without a socket.

        errors:  ProcessDied  the process ended before it answered
        """

    async def gone(self) -> None:
        """Wait until the process has ended, then raise ProcessDied.

        errors:  ProcessDied  the process has ended
        """

    def kill(self) -> None:
        """Kill the process."""


class UserProcess:
    """The worker's interface to one process: calls go over the socket, or through Ray if there is no socket."""

    def __init__(self, started: StartedProcess) -> None:
        self._started = started
        self._is_up = False
        self._socket: CallSocket | None = None

    @property
    def is_reached(self) -> bool:
        """Return whether a socket is open."""
        return self._socket is not None and self._socket.is_open

    async def ready(self) -> None:
        """Wait until the user's code is imported. If the code is already imported, wait until the process answers.

        errors:  ProcessDied  the import failed, or the process has ended
        """
        if not self._is_up:
            await self._connect()
            return
        if self.is_reached:
            with suppress(NotCalled, ProcessDied):  # `StartedProcess.ready` below raises the cause of the end
                await self.request(IS_ALIVE)
                return
        await self._started.ready()

    async def gone(self) -> None:
        """Wait until the process has ended, fail its calls, and raise ProcessDied.

        errors:  ProcessDied  the process has ended
        """
        try:
            await self._started.gone()
        except ProcessDied as died:
            # The socket may still be open in a child process that the user's code has forked.
            self._fail_calls(died)
            raise

    async def request(self, call: bytes) -> bytes:
        """Call the process.

        errors:  NotCalled    the socket is closed.
                 ProcessDied  the process ended before it answered.
        """
        if self._socket is None:
            return await self._started.answer(call)
        try:
            return await self._socket.request(call)
        except NotSent as error:
            raise NotCalled from error
        except SocketLost as lost:
            raise ProcessDied(f"the {self._started.owner}'s process {lost}", may_live=True) from lost

    def kill(self) -> None:
        """Kill the process."""
        self._started.kill()
        self._fail_calls(ProcessDied(f"the {self._started.owner}'s process was killed by its worker"))

    async def _connect(self) -> None:
        self._socket = await self._started.connected()
        self._is_up = True
        if self._socket is None:
            why = "its process can't be reached by a socket"
            structlog.get_logger().info(f"{self._started.owner} called through Ray", why=why)

    def _fail_calls(self, died: ProcessDied) -> None:
        if self._socket is not None:
            self._socket.fail_calls(died)
