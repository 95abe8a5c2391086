"""A process of the user's code as its worker sees it: the worker starts, calls and ends it."""

from contextlib import suppress
from typing import Protocol

import structlog

from shardclock.executor.frames import IS_ALIVE
from shardclock_server.workers.call_socket import CallSocket, NotSent, SocketLost


class ProcessDied(Exception):
    """A process of the user's code is gone; the message says how it ended, as far as that is known.

    `may_live`: only a connection to it is known to be lost, or it has answered that it failed.
    """

    def __init__(self, how: str, *, may_live: bool = False) -> None:
        super().__init__(how)
        self.may_live = may_live


class NotCalled(Exception):
    """The process can't be reached any more, and was not when it was to be called: nothing was called."""


class StartedProcess(Protocol):
    """A process that was started: by Ray, or by the worker itself.

    `whose` is "handler" or "run", and stands in the sentences about its end.
    """

    whose: str

    async def connected(self) -> CallSocket | None:
        """Wait until the user's code is imported, and return the socket to it, if there is one.

        errors:  ProcessDied  it can't be imported, or has ended
        """

    async def ready(self) -> None:
        """Wait until the process shows that it is alive, without its socket.

        errors:  ProcessDied  it has ended
        """

    async def answer(self, call: bytes) -> bytes:
        """Call the process without a socket.

        errors:  ProcessDied  it ended before it answered
        """

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone.

        errors:  ProcessDied  it has ended
        """

    def kill(self) -> None:
        """End the process at once."""


class UserProcess:
    """The worker's end."""

    def __init__(self, started: StartedProcess) -> None:
        self._started = started
        self._is_up = False
        self._socket: CallSocket | None = None

    @property
    def is_reached(self) -> bool:
        """Say whether there is a socket to it, which is open."""
        return self._socket is not None and self._socket.is_open

    async def ready(self) -> None:
        """Wait until the user's code is imported; later, until the process shows that it is alive.

        errors:  ProcessDied  it can't be imported, or has ended
        """
        if not self._is_up:
            await self._come_up()
            return
        if self.is_reached:
            with suppress(NotCalled, ProcessDied):  # the next answer has the cause
                await self.ask(IS_ALIVE)
                return
        await self._started.ready()

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone; calls of it fail then, too.

        errors:  ProcessDied  it has ended
        """
        try:
            await self._started.gone()
        except ProcessDied as died:
            # A process that the user's code has forked may keep the socket open.
            self._lose(died)
            raise

    async def ask(self, call: bytes) -> bytes:
        """Call the process.

        errors:  NotCalled    its socket is closed
                 ProcessDied  it ended before it answered
        """
        if self._socket is None:
            return await self._started.answer(call)
        try:
            return await self._socket.ask(call)
        except NotSent as error:
            raise NotCalled from error
        except SocketLost as lost:
            raise ProcessDied(f"the {self._started.whose}'s process {lost}", may_live=True) from lost

    def kill(self) -> None:
        """End the process at once."""
        self._started.kill()
        self._lose(ProcessDied(f"the {self._started.whose}'s process was killed by its worker"))

    async def _come_up(self) -> None:
        self._socket = await self._started.connected()
        self._is_up = True
        if self._socket is None:
            why = "its process can't be reached by a socket"
            structlog.get_logger().info(f"{self._started.whose} called through Ray", why=why)

    def _lose(self, died: ProcessDied) -> None:
        if self._socket is not None:
            self._socket.lose(died)
