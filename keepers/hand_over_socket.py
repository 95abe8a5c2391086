"""The socket over which a shard hands deliveries over to a worker on the same machine.

A worker listens on a Unix socket without a file; the socket's name contains the worker's holder number. Shard and
worker each refuse a peer process of another operating system user. The worker grants places: for each target, the total
number of deliveries that it accepts over this connection. A running statement of the shard may still use the old limit
when the worker lowers the limit. So a lower limit applies only after the shard has answered with `Kept`. The shard
sends the deliveries in the order in which its statements wrote them.

A message is a pickled object; a number in the message header gives the message type. Shard and worker may each close
the connection at any time. After a close, the shard connects again, and repeats the deliveries that the worker has not
confirmed.
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
    """The shard's first message.

    The message has the id of the shard's stream of numbered messages; a stream continues over all connections.
    """

    stream: int


class GrantLimits(NamedTuple):
    """A worker's message: the worker's limit for each target, and the lease duration of handed-over deliveries."""

    lease_s: float
    limits: dict[str, int]


class Kept(NamedTuple):
    """A shard's message: for each target with a lowered limit, the limit that applies from now on."""

    limits: dict[str, int]


class Taken(NamedTuple):
    """A worker's message: the number of the last received message; it also confirms all earlier messages."""

    number: int


class HandedOver(NamedTuple):
    """A shard's message: it hands over deliveries to the worker; each row of `rows` has the fields of one delivery.

    The worker has leases of these deliveries for `lease_s` seconds, from `server_time` on.

    If the connection ends, the shard repeats each unconfirmed message over the next connection, with the same number;
    the worker processes each number only once.
    """

    number: int
    server_time: datetime
    lease_s: float
    rows: list[tuple[Any, ...]]


Message: TypeAlias = Begins | GrantLimits | Kept | Taken | HandedOver
MESSAGES: tuple[type[Message], ...] = (Begins, GrantLimits, Kept, Taken, HandedOver)


class HandOverSocket(Messages):
    """A connection, which calls `heard` with each received message, and `lost` when the connection has ended."""

    def __init__(
        self, heard: Callable[["HandOverSocket", Any], None], lost: Callable[["HandOverSocket"], None]
    ) -> None:
        super().__init__()
        self._heard, self._lost = heard, lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection if the peer process belongs to this operating system user."""
        super().connection_made(transport)
        if not _is_ours(transport.get_extra_info("socket")):
            self.close()

    @property
    def is_writable(self) -> bool:
        """Return whether the peer reads its messages; unread messages fill this process's memory."""
        return (
            self.is_open and self._transport is not None and self._transport.get_write_buffer_size() < PASSED_BYTES_MAX
        )

    def send(self, message: Message) -> None:
        """Send a message, unless the connection is closed."""
        self.write(MESSAGES.index(type(message)), pickle.dumps(tuple(message), pickle.HIGHEST_PROTOCOL))

    def take(self, number: int, body: bytes) -> None:
        """Pass a received message to `heard`."""
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
