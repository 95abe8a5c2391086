"""The socket over which a shard hands deliveries over to a worker on the same machine.

A worker listens on a Unix socket without a file; the socket's name contains the worker's holder number. Each end
refuses a process of another user. The worker grants places: for each target, the total number of deliveries that the
worker accepts over this connection. A lowered limit is in force after the shard's answer, because a statement of the
shard may be using the places. The connection carries the deliveries in the order of the statements.

A message is pickled; the number in its head is its kind. Either end may close the connection at any time. Then the
shard connects again, and repeats the deliveries that the worker has not confirmed.
"""

import asyncio
import os
import pickle
import socket
import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from shardclock.executor.call_server import CREDENTIALS, socket_that
from shardclock.executor.frames import Messages

PASSED_BYTES_MAX = 16 * 2**20  # the limit of unsent bytes in the connection to a worker that doesn't read


class Begins(NamedTuple):
    """The shard's first message. It names the stream of numbered messages, which continues over all connections."""

    stream: int


class GrantLimits(NamedTuple):
    """A worker's message: the worker's limit for each target, and the lease that a handed-over delivery gets."""

    lease_s: float
    limits: dict[str, int]


class Kept(NamedTuple):
    """A shard's message: for each limit that the worker has lowered, the value that applies from now on."""

    limits: dict[str, int]


class Taken(NamedTuple):
    """A worker's message: the number of the last message that it has received; all earlier ones are confirmed, too."""

    number: int


class HandedOver(NamedTuple):
    """A shard's message: the fields of deliveries that are leased to the worker for `lease_s` from `server_time` on.

    After the end of a connection, the shard repeats each unconfirmed message over the next connection, with the same
    number; the worker processes each number once.
    """

    number: int
    server_time: datetime
    lease_s: float
    rows: list[tuple[Any, ...]]


Message: TypeAlias = Begins | GrantLimits | Kept | Taken | HandedOver
MESSAGES: tuple[type[Message], ...] = (Begins, GrantLimits, Kept, Taken, HandedOver)


class HandOverSocket(Messages):
    """One end of a connection: `heard` is called with each message, and `lost` at the end of the connection."""

    def __init__(
        self, heard: Callable[["HandOverSocket", Any], None], lost: Callable[["HandOverSocket"], None]
    ) -> None:
        super().__init__()
        self._heard, self._lost = heard, lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, if the peer is a process of this user."""
        super().connection_made(transport)
        if not _is_ours(transport.get_extra_info("socket")):
            self.close()

    @property
    def is_writable(self) -> bool:
        """Return whether the peer reads; messages to a peer that does not read would fill the memory."""
        return (
            self.is_open and self._transport is not None and self._transport.get_write_buffer_size() < PASSED_BYTES_MAX
        )

    def send(self, message: Message) -> None:
        """Send a message, unless the connection is closed."""
        self.write(MESSAGES.index(type(message)), pickle.dumps(tuple(message), pickle.HIGHEST_PROTOCOL))

    def take(self, number: int, body: bytes) -> None:
        """Pass a message on."""
        self._heard(self, MESSAGES[number](*pickle.loads(body)))  # noqa: S301 - ours

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Report that the connection has ended."""
        self._lost(self)


async def listen(holder: int, make: Callable[[], HandOverSocket]) -> asyncio.Server | None:
    """Listen for the shards of this machine; return None if the system does not support sockets that need no file."""
    if (listening := socket_that(lambda it: it.bind(_address_of(holder)))) is None:
        return None
    return await asyncio.get_running_loop().create_unix_server(make, sock=listening)


async def connect(holder: int, make: Callable[[], HandOverSocket]) -> HandOverSocket | None:
    """Connect to a worker of this machine; None if the worker does not listen here."""
    if (peer := socket_that(lambda it: it.connect(_address_of(holder)))) is None:
        return None
    _, ours = await asyncio.get_running_loop().create_unix_connection(make, sock=peer)
    return ours


def _address_of(holder: int) -> str:
    return f"\0shardclock-worker-{holder:016x}"


def _is_ours(connected: socket.socket) -> bool:
    try:
        peer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        _, user, _ = CREDENTIALS.unpack(peer)
    except (OSError, struct.error):
        return False
    return bool(user == os.getuid())
