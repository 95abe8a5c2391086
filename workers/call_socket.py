"""The worker's end of the socket to an executor (`shardclock.executor`).

Calls use a socket, because a call of a Ray actor passes through several threads of both processes and takes longer than
most handlers. Ray or the operating system starts the executor's process, and reports why the process ended
(docs/decisions/0064-calls-by-socket.md).
"""

import asyncio
from contextlib import suppress

from shardclock.executor.call_server import socket_that
from shardclock.executor.frames import FAILED, GREETING, Messages

GREETED_S = 5.0
LOST_S = (
    # The time from the close of the socket to Ray's report that the process has ended. The kernel reports the end of a
    # local process immediately.
    10.0
)


class SocketLost(Exception):
    """The socket to a process was closed for an unknown reason, or the process answered with an error.

    shape:   the message continues a sentence that starts with "the process"
    """


class NotSent(Exception):
    """The socket to a process was closed before the call, so no bytes were sent."""


class CallSocket(Messages):
    """The worker's end of the socket: send any number of concurrent calls, and wait for their answers."""

    def __init__(self) -> None:
        super().__init__()
        self._last_number = GREETING
        self.refusal: str | None = None
        self._greeted = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def accepts_calls(self) -> bool:
        """Wait until the process sends its greeting or a refusal, or closes the socket.

        The result is True if the process accepts calls.

        shape:   afterwards `refusal` has the reason that the process sent
        """
        await self._greeted.wait()
        return self.refusal is None and self.is_open

    async def request(self, body: bytes) -> bytes:
        """Send a call, and return the answer.

        errors:  NotSent     the socket is closed
                 SocketLost  the process ended before it answered; `fail_calls` may set another error
        """
        if not self.is_open:
            raise NotSent
        self._last_number += 1
        number = self._last_number
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
            return  # the caller was canceled
        if (error := _error_in(body)) is None:
            answer.set_result(body)
        else:
            answer.set_exception(SocketLost(f"failed: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Fail the waiting calls after a delay, so that Ray or the kernel can first report why the process ended."""
        self._greeted.set()  # No greeting will come.
        if self._waiting:  # The connection sends no more answers.
            error = SocketLost("has closed its socket")
            asyncio.get_running_loop().call_later(LOST_S, self.fail_calls, error)

    def fail_calls(self, error: BaseException) -> None:
        """Close the socket, and fail all calls that wait for an answer: the process has ended."""
        self.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)


async def connected(address: str | None) -> CallSocket | None:
    """Connect to a process; return None if it can't be reached or refuses calls."""
    if address is None or (peer := socket_that(lambda it: it.connect(f"\0{address}"))) is None:
        return None
    _, calls = await asyncio.get_running_loop().create_unix_connection(CallSocket, sock=peer)
    accepts_calls = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GREETED_S):
                accepts_calls = await calls.accepts_calls()
    finally:
        if not accepts_calls:
            calls.close()
    return calls if accepts_calls else None


def _error_in(body: bytes) -> str | None:
    return body[len(FAILED) :].decode(errors="replace") if body.startswith(FAILED) else None
