"""Make the sockets of webhooks, and none to an address that is not permitted.

The guard sees the very address that is connected to next, of a name as of a literal. So nothing is gained by a name
that has another address a moment later, or by a spelling that only a C library reads as an address.
"""

import socket
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from shardclock_server.webhooks.addresses import Networks

# family, type, protocol, canonical name, address: as `socket.getaddrinfo` returns them
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class ForbiddenAddress(OSError):
    """Refuse to connect; the message does not have the address, because a tenant may read it."""


@dataclass(slots=True)
class Connecting:
    """Note what the guard did for one request: aiohttp's own errors don't say."""

    opened: int = 0
    forbidden: int = 0


connecting: ContextVar[Connecting] = ContextVar("connecting")


class Guard:
    """Make sockets, as the `socket_factory` of an aiohttp connector."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self.open = 0  # sockets that are not closed

    def __call__(self, info: AddressInfo) -> socket.socket:
        """Make the socket for one address.

        errors:  ForbiddenAddress  the address is not permitted
        """
        family, kind, protocol, _, address = info
        noted = connecting.get()
        if family not in {socket.AF_INET, socket.AF_INET6} or not self._networks.permit(str(address[0])):
            noted.forbidden += 1
            raise ForbiddenAddress("the address is not permitted")
        made = _Counted(family, kind, protocol)
        made.guard = self
        self.open += 1
        noted.opened += 1
        return made


class _Counted(socket.socket):
    """Count itself until it is closed; its end as an object comes later, when cycles are collected."""

    guard: Guard | None = None

    def close(self) -> None:
        if self.guard is not None:
            self.guard.open -= 1
            self.guard = None
        super().close()
