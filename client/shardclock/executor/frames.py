"""The messages of the socket between a worker and an executor.

A message consists of a head and a body. The head has the number of the call, and the length of the body in bytes. An
answer has the same number as its call.
"""

import asyncio
import struct
from typing import cast

HEAD = struct.Struct("!QQ")
FAILED = b"\0"  # The first byte of an error, sent in place of an answer; no pickle begins with this byte.
GREETING = 0  # The number of the executor's first message; no call has this number.
LISTEN = FAILED + b"listen"  # The answer to this call is the address at which the executor listens, or "".
IS_ALIVE = b""  # An empty message, which the executor answers with an empty message to show that its event loop runs.


def framed(number: int, body: bytes) -> bytes:
    """Format a message as one byte string."""
    return HEAD.pack(number, len(body)) + body


class Messages(asyncio.Protocol):
    """Split received bytes into messages, and write messages."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass of asyncio's

    def data_received(self, data: bytes) -> None:
        """Handle each complete message in the received data."""
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
        """Handle a complete message."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether a message can be written."""
        return self._transport is not None and not self._transport.is_closing()

    def write(self, number: int, body: bytes) -> None:
        """Write a message, unless the socket is closed."""
        if self._transport is not None and self.is_open:
            self._transport.writelines([HEAD.pack(number, len(body)), body])

    def close(self) -> None:
        """Close the socket immediately, and drop unsent messages: the peer may have stopped reading."""
        if self._transport is not None:
            self._transport.abort()
