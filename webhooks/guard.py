"""Create the sockets for webhooks, and refuse addresses that are not permitted.

The guard checks the exact address of each connection, whether the URL contains a name or an address. Two attacks
therefore fail: a name that changes its address, and a spelling that only a C library reads as an address.
"""

import socket
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from shardclock_server.webhooks.addresses import Networks

# family, type, protocol, canonical name, address: the tuple of `socket.getaddrinfo`
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class ForbiddenAddress(OSError):
    """Refuse a connection; the message omits the address, because a tenant may read the message."""


@dataclass(slots=True)
class SocketCounts:
    """Count the sockets opened and refused for one request; aiohttp's errors omit these numbers."""

    opened: int = 0
    forbidden: int = 0


socket_counts: ContextVar[SocketCounts] = ContextVar("socket_counts")


class Guard:
    """Create sockets, as the `socket_factory` of an aiohttp connector."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self.open = 0  # sockets that are not closed yet

    def __call__(self, info: AddressInfo) -> socket.socket:
        """Create the socket for one address.

        errors:  ForbiddenAddress  the address is not permitted
        """
        family, kind, protocol, _, address = info
        counts = socket_counts.get()
        if family not in {socket.AF_INET, socket.AF_INET6} or not self._networks.permit(str(address[0])):
            counts.forbidden += 1
            raise ForbiddenAddress("the address is not permitted")
        made = CountedSocket(family, kind, protocol)
        made.guard = self
        self.open += 1
        counts.opened += 1
        return made


class CountedSocket(socket.socket):
    """A socket that counts as open until `close` is called, even if the object exists longer."""

    guard: Guard | None = None

    def close(self) -> None:
        if self.guard is not None:
            self.guard.open -= 1
            self.guard = None
        super().close()
