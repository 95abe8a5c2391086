"""The executor's side of the socket: answer the calls of one worker.

The socket has an abstract address instead of a file, because a killed process would leave a file behind. The address is
random, and the server rejects a process of another user. The worker uses the socket after the executor's greeting.
"""

import asyncio
import os
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from shardclock.executor.frames import FAILED, GREETING, IS_ALIVE, Messages
from shardclock.reason import reason_of

CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid and gid of the peer
Answer = Callable[[bytes], Awaitable[bytes]]


class CallServer:
    """Listen for one worker, and answer its calls."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def listen(self) -> str | None:
        """Listen for the worker, and return the address; None if the system has no abstract sockets."""
        address = f"shardclock-{secrets.token_hex(16)}"
        if (listening := socket_that(lambda it: it.bind(f"\0{address}"))) is None:
            return None
        self._server = await asyncio.get_running_loop().create_unix_server(self._serve, sock=listening)
        return address

    def _serve(self) -> "_Listened":
        return _Listened(self._answer, self.close)

    def close(self) -> None:
        """Stop listening; a connected worker stays connected."""
        if self._server is not None:
            self._server.close()
            self._server = None


def socket_that(begin: Callable[[socket.socket], object]) -> socket.socket | None:
    """Create a Unix socket, and call `begin` with the socket; return None after an OSError."""
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


class Serving(Messages):
    """Greet the worker, and answer its calls; any number of calls run concurrently."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer
        self._calls: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the worker."""
        super().connection_made(transport)
        self.write(GREETING, b"")

    def take(self, number: int, body: bytes) -> None:
        """Start a call."""
        if body == IS_ALIVE:
            self.write(number, IS_ALIVE)
            return
        self._begin(self._call(number, body))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        call = asyncio.get_running_loop().create_task(work)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, number: int, body: bytes) -> None:
        try:
            answer = await self._answer(body)
        except BaseException as error:
            # Send the error to the worker: a bug in Shardclock, or a handler that cancelled its own task.
            self.write(number, FAILED + reason_of(error).encode(errors="replace"))
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
            return
        self.write(number, answer)


class _Listened(Serving):
    """Accept the first connection that a process of this user makes."""

    def __init__(self, answer: Answer, accepted: Callable[[], None]) -> None:
        super().__init__(answer)
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer: bytes = transport.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size
        )
        _, user, _ = CREDENTIALS.unpack(peer)
        if user != os.getuid():
            transport.close()
            return
        self._accepted()
        super().connection_made(transport)
