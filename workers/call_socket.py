"""The worker's end of the socket to an executor (`shardclock.executor`).

A call of a Ray actor passes several threads of both processes: it costs more than most handlers do. Ray, or the
operating system, still starts the process, knows when it has ended, and says why
(docs/decisions/0064-calls-by-socket.md).
"""

import asyncio
from contextlib import suppress

from shardclock.executor.call_server import socket_that
from shardclock.executor.frames import FAILED, GREETING, Messages

GREETED_S = 5.0
LOST_S = 10.0  # Ray knows by then how a process has ended that has closed its socket; the kernel knows at once


class SocketLost(Exception):
    """The socket to a process was closed for an unknown reason; or the process answered that it failed.

    The message follows "the process".
    """


class NotSent(Exception):
    """The socket to a process was closed before the call: nothing was sent."""


class CallSocket(Messages):
    """The worker's end: send calls, any number at a time, and wait for their answers."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = GREETING
        self.refusal: str | None = None
        self._greeted = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def is_greeted(self) -> bool:
        """Wait until the process greets, refuses or closes the socket; say whether it takes calls.

        shape:   `refusal` has the reason afterwards, if the process gave one
        """
        await self._greeted.wait()
        return self.refusal is None and self.is_open

    async def ask(self, body: bytes) -> bytes:
        """Send a call, and return its answer.

        errors:  NotSent     the socket is closed
                 SocketLost  or what `lose` was told: the process ended before it answered
        """
        if not self.is_open:
            raise NotSent
        self._asked += 1
        number = self._asked
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self.write(number, body)
            return await answer
        finally:
            del self._waiting[number]

    def take(self, number: int, body: bytes) -> None:
        if number == GREETING:
            self.refusal = _error_in(body)
            self._greeted.set()
            return
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return  # nobody waits for it any more
        if (error := _error_in(body)) is None:
            answer.set_result(body)
        else:
            answer.set_exception(SocketLost(f"failed: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Wait for the end of the process, which Ray or the kernel reports a moment later with its cause."""
        self._greeted.set()  # nobody will
        if self._waiting:  # nothing is sent any more
            why = SocketLost("has closed its socket")
            asyncio.get_running_loop().call_later(LOST_S, self.lose, why)

    def lose(self, why: BaseException) -> None:
        """Close the socket, and let all calls fail that wait for an answer: the process has ended."""
        self.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(why)


async def connected(address: str | None) -> CallSocket | None:
    """Return the socket of the process that listens there; None if it can't be reached, or takes no calls of ours."""
    if address is None or (peer := socket_that(lambda it: it.connect(f"\0{address}"))) is None:
        return None
    _, ours = await asyncio.get_running_loop().create_unix_connection(CallSocket, sock=peer)
    is_greeted = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GREETED_S):
                is_greeted = await ours.is_greeted()
    finally:
        if not is_greeted:
            ours.close()
    return ours if is_greeted else None


def _error_in(body: bytes) -> str | None:
    return body[len(FAILED) :].decode(errors="replace") if body.startswith(FAILED) else None
