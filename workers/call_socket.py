"""A socket over which a worker calls a process of the user's code on the same host.

A call of a Ray actor passes several threads of both processes: it costs more than most handlers do. Ray still starts
the process, knows when it has ended, and says why (docs/decisions/0064-calls-by-socket.md).

The socket has no file, so that a process that is killed leaves none behind. Its name is random, and a process of
another user is sent away. The process greets the worker: without a greeting there is no socket.
"""

import asyncio
import os
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from shardclock.reason import reason_of

HEAD = struct.Struct("!QQ")  # before each message: the number of its call, and its length in bytes
FAILED = b"\0"  # before the text of an error, in place of an answer; a pickle begins otherwise
GREETING = 0  # the number of the first message, which no call has
IS_ALIVE = b""  # in place of a call, and the answer to it: the process's loop takes messages
GREETED_S = 5.0
CREDENTIALS = struct.Struct("iII")  # a peer's process, user and group
LOST_S = 10.0  # Ray knows by then how a process has ended that has closed its socket


class SocketLost(Exception):
    """The socket to a process was closed, and nobody knows why; or the process answered that it failed.

    The message follows "the process".
    """


class NotSent(Exception):
    """The socket to a process was closed before the call: nothing was sent."""


class _Messages(asyncio.Protocol):
    """Cut what comes in into messages, and write messages."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= HEAD.size:
            number, length = HEAD.unpack_from(self._received)
            end = HEAD.size + length
            if len(self._received) < end:
                return
            body = bytes(self._received[HEAD.size : end])
            del self._received[:end]
            self.take(number, body)

    def take(self, number: int, body: bytes) -> None:
        """Take a message that is whole."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Say whether a message can be written."""
        return self._transport is not None and not self._transport.is_closing()

    def write(self, number: int, body: bytes) -> None:
        """Write a message, unless the socket is closed."""
        if self._transport is not None and self.is_open:
            self._transport.writelines([HEAD.pack(number, len(body)), body])

    def close(self) -> None:
        """Close the socket at once, whatever is not sent yet: nobody may read it any more."""
        if self._transport is not None:
            self._transport.abort()


class CallSocket(_Messages):
    """The worker's end: send calls, any number at a time, and wait for their answers."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = GREETING
        self._greeted = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def is_greeted(self) -> bool:
        """Wait until the process says that it takes calls, and say whether it does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GREETED_S):
                await self._greeted.wait()
        return self._greeted.is_set() and self.is_open

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
            self._greeted.set()
            return
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return  # nobody waits for it any more
        if body.startswith(FAILED):
            answer.set_exception(SocketLost("failed: " + body[len(FAILED) :].decode(errors="replace")))
        else:
            answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Leave it to Ray to say what became of the process, which it does a moment later."""
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
    if address is None or (peer := _socket(lambda it: it.connect(f"\0{address}"))) is None:
        return None
    _, ours = await asyncio.get_running_loop().create_unix_connection(CallSocket, sock=peer)
    is_greeted = False
    try:
        is_greeted = await ours.is_greeted()
    finally:
        if not is_greeted:
            ours.close()
    return ours if is_greeted else None


def _socket(begin: Callable[[socket.socket], object]) -> socket.socket | None:
    made: socket.socket | None = None
    try:
        made = socket.socket(socket.AF_UNIX)
        made.setblocking(False)
        begin(made)
    except OSError:
        if made is not None:
            made.close()
        return None
    return made


class CallServer:
    """The process's end: answer the calls of one worker."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def listen(self) -> str | None:
        """Listen for the worker, and return where; None if there can be no such socket."""
        address = f"shardclock-{secrets.token_hex(16)}"
        if (listening := _socket(lambda it: it.bind(f"\0{address}"))) is None:
            return None
        self._server = await asyncio.get_running_loop().create_unix_server(self._serve, sock=listening)
        return address

    def _serve(self) -> "_Serving":
        return _Serving(self._answer, self.close)

    def close(self) -> None:
        """Listen no more; a worker that has connected stays so."""
        if self._server is not None:
            self._server.close()
            self._server = None


class _Serving(_Messages):
    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]], accepted: Callable[[], None]) -> None:
        super().__init__()
        self._answer = answer
        self._accepted = accepted
        self._calls: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer: bytes = transport.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size
        )
        _, user, _ = CREDENTIALS.unpack(peer)
        if user != os.getuid():
            transport.close()
            return
        super().connection_made(transport)
        self._accepted()
        self.write(GREETING, b"")

    def take(self, number: int, body: bytes) -> None:
        if body == IS_ALIVE:
            self.write(number, IS_ALIVE)
            return
        call = asyncio.get_running_loop().create_task(self._call(number, body))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, number: int, body: bytes) -> None:
        try:
            answer = await self._answer(body)
        except BaseException as error:
            # A fault of ours, or a handler that has cancelled its own task. Who called hears of it, and does not wait.
            self.write(number, FAILED + reason_of(error).encode(errors="replace"))
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
            return
        self.write(number, answer)
