"""Limit the open connections of one gateway, in total and by client address, below the process's limit of files.

At the limit, a new connection replaces an idle connection. The gateway first closes an unauthenticated connection: the
oldest connection of the address that has most unauthenticated connections. If all connections are authenticated, the
gateway closes an idle connection. A client that opens connections without requests therefore can't lock out other
clients.
"""

import resource
import time
from collections import Counter, defaultdict
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from shardclock_server.gateway.limits.concurrency import is_within_share
from shardclock_server.gateway.settings import GatewaySettings

FILES_KEPT = 64  # open files for listeners, sockets of notifications and metrics, modules and certificates
LEAST = 16
OTHER_SESSIONS = 11  # Sessions for keys, quotas, notifications, waits and operations.
# A connection is young for this time. A new connection does not replace a young connection of the same client, because
# the first request of the young connection may still be on its way.
YOUNG_S = 1.0
SITE_CHARACTERS = 19  # the first half of an expanded IPv6 address; one client may own a complete /64


class Connection(Protocol):
    """A connection that can be closed."""

    def end(self) -> None:
        """Close the connection without delay."""


class Connections:
    """Track the open connections, their client addresses, and the idle connections."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[Connection, str] = {}
        self._by_address: Counter[str] = Counter()
        # Keys: addresses. Values: the unauthenticated connections, and the idle authenticated connections, the oldest
        # first, each with the time at which it entered this state.
        self._unproven: defaultdict[str, dict[Connection, float]] = defaultdict(dict)
        self._idle: defaultdict[str, dict[Connection, float]] = defaultdict(dict)

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._open)

    def admit(self, connection: Connection, address: str) -> bool:
        """Add a new connection, if necessary in place of an idle connection; return False if no connection is idle."""
        site = site_of(address)
        free = self.most - len(self)
        if free and not is_within_share(self._by_address[site], free):
            is_admitted = self._make_room(self._unproven, site, site) or self._make_room(self._idle, site, site)
        else:
            is_admitted = free > 0 or self._make_room_for(site)
        if is_admitted:
            self._open[connection] = site
            self._by_address[site] += 1
            self._unproven[site][connection] = time.monotonic()
        return is_admitted

    def begin(self, connection: Connection) -> None:
        """Mark a connection as busy, because a request has started."""
        if (site := self._open.get(connection)) is not None:
            self._forget_idle(connection, site)

    def rest(self, connection: Connection, *, is_proven: bool) -> None:
        """Mark a connection as idle, because the last request is answered.

        `is_proven`: a request of the connection was authenticated.
        """
        if (site := self._open.get(connection)) is not None:
            (self._idle if is_proven else self._unproven)[site][connection] = time.monotonic()

    def leave(self, connection: Connection) -> None:
        """Remove a closed connection."""
        if (site := self._open.pop(connection, None)) is None:
            return
        self._forget_idle(connection, site)
        self._by_address[site] -= 1
        if not self._by_address[site]:
            del self._by_address[site]

    def _forget_idle(self, connection: Connection, site: str) -> None:
        for kind in (self._unproven, self._idle):
            if (held := kind.get(site)) is not None:
                held.pop(connection, None)
                if not held:
                    del kind[site]

    def _make_room_for(self, site: str) -> bool:
        """Close an idle connection of the address that has the most idle connections.

        An authenticated connection is closed only if its address has more connections than the new connection's
        address.
        """
        if self._unproven:
            most = max(self._unproven, key=lambda it: len(self._unproven[it]))
            return self._make_room(self._unproven, most, site)
        most = max(self._idle, key=self._by_address.__getitem__, default=site)
        return self._by_address[most] > self._by_address[site] and self._make_room(self._idle, most, site)

    def _make_room(self, kind: defaultdict[str, dict[Connection, float]], site: str, newcomer: str) -> bool:
        """Close an address's oldest connection of one kind."""
        if not (held := kind.get(site)):
            return False
        oldest, since_s = next(iter(held.items()))
        if site == newcomer and time.monotonic() < since_s + YOUNG_S:
            return False
        self.leave(oldest)
        oldest.end()
        return True


def site_of(address: str) -> str:
    """Return the network that counts as one client: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return address
    return str(ip.ipv4_mapped) if ip.ipv4_mapped else ip.exploded[:SITE_CHARACTERS]


def connections_of(settings: GatewaySettings) -> int:
    """Return the limit of client connections: the setting, or a number below the process's limit of open files."""
    return settings.gateway_connections_max or connections_max(settings.gateway_sessions + OTHER_SESSIONS)


def connections_max(sessions: int) -> int:
    """Return how many client connections may be open: the process's limit of files minus `sessions` and other files.

    The function first raises the process's soft limit of open files to the hard limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(LEAST, hard - FILES_KEPT - sessions)
