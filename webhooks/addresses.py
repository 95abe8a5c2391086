"""Decide which addresses a webhook may be sent to: public addresses, and the networks that the operator allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from shardclock_server.timers.refusal import Refusal, shortened

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Private networks that a supported release of Python treats as public. IANA's registry calls some of these networks
# global, but a webhook must not be sent to them.
DENIED = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; Alibaba Cloud's metadata (100.100.100.200)
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's metadata and DNS, at a public address.
        "169.254.0.0/16",  # The metadata services of nearly all clouds.
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; Oracle Cloud's metadata (192.0.0.192)
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",  # Reserved, including the broadcast address.
        "2001::/23",  # Protocol assignments; a Teredo address contains an IPv4 address.
        "2001:db8::/32",
        "2002::/16",  # A 6to4 address contains an IPv4 address.
        "3fff::/20",  # Documentation (RFC 9637).
    )
)
# A metadata service gives the machine's credentials to each program on the machine. Some metadata services are in
# networks that operators allow, such as 100.64.0.0/10.
METADATA = frozenset(
    ip_address(text)
    for text in (
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.169.252",
        "169.254.42.42",
        "192.0.0.192",
        "fd00:ec2::23",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:42::42",
        "fe80::a9fe:a9fe",
    )
)
UNICAST = IPv6Network("2000::/3")  # All public IPv6 addresses; other addresses are private, multicast or not assigned.
NAT64 = IPv6Network("64:ff9b::/96")  # A NAT64 gateway connects to the IPv4 address in the last 32 bits.


class InvalidNetwork(Refusal):
    """Refuse a text that is not a network."""


@dataclass(frozen=True, slots=True)
class Networks:
    """Decide whether a connection to an address is permitted.

    The address must not be in a denied network, and it must be public or in an allowed network. An operator allows the
    networks of the operator's own receivers, and denies public networks that lead back into the operator's networks.
    The address of a cloud's metadata service is permitted only if an allowed network consists of exactly this address.
    """

    allowed: tuple[Network, ...] = ()
    denied: tuple[Network, ...] = ()

    def permit(self, address: Address | str) -> bool:
        """Return whether a connection to an address is permitted; a text must be an address in its usual form.

        An address with a zone (fe80::1%2) is refused, because it differs from the address without a zone, but the
        kernel connects to the same address.
        """
        found = address_of(address) if isinstance(address, str) else address
        if found is None or _has_zone(found):
            return False
        unwrapped = _unwrapped(found)
        if _is_in(unwrapped, self.denied) or _is_in(found, self.denied):
            return False
        allowing = [network for network in self.allowed if unwrapped in network]
        if unwrapped in METADATA:
            return any(network.num_addresses == 1 for network in allowing)
        return bool(allowing) or is_public(unwrapped)


def listed(text: str) -> list[str]:
    """Split a setting at its commas, without empty parts."""
    return [part.strip() for part in text.split(",") if part.strip()]


def networks_of(allowed: Iterable[str] = (), denied: Iterable[str] = ()) -> Networks:
    """Read the operator's networks.

    errors:  InvalidNetwork  a text is not a network; the message names the text
    """
    return Networks(tuple(map(_network, allowed)), tuple(map(_network, denied)))


def is_public(address: Address) -> bool:
    """Return whether an address belongs to the public internet, so that it can't lead into our networks."""
    unwrapped = _unwrapped(address)
    if _has_zone(address) or (isinstance(unwrapped, IPv6Address) and unwrapped not in UNICAST):
        return False
    return unwrapped.is_global and not _is_in(unwrapped, DENIED)


def address_of(text: str) -> Address | None:
    """Parse an address in its usual form; return None for other forms, such as 127.1, which C libraries accept."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def _has_zone(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.scope_id is not None


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv4-mapped or NAT64 address contains; return any other address unchanged."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidNetwork(
            f"network {shortened(text)} is refused: it must be an address and a prefix length, such as 10.0.0.0/8"
        ) from None
