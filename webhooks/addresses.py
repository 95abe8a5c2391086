"""Which addresses a webhook may be sent to: the public ones, and those that the operator allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from shardclock_server.timers.refusal import Refusal, shortened

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Python's own list of private networks grows with its releases; this one holds what some supported release lacks, and
# what is global by the registry and still no place for a webhook.
DENIED = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; Alibaba Cloud's metadata (100.100.100.200)
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's metadata and DNS, at a public address
        "169.254.0.0/16",  # the metadata of nearly all clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; Oracle Cloud's metadata (192.0.0.192)
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",  # with the broadcast address
        "2001::/23",  # protocol assignments, with Teredo, which carries an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which carries an IPv4 address
        "3fff::/20",  # documentation (RFC 9637)
    )
)
# They give whoever asks the rights of the machine. Some lie in networks that operators allow, such as 100.64.0.0/10.
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
UNICAST = IPv6Network("2000::/3")  # all public IPv6 addresses; the rest is private, multicast or not assigned
NAT64 = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address, which a gateway connects to


class InvalidNetwork(Refusal):
    """Refuse what is no network."""


@dataclass(frozen=True, slots=True)
class Networks:
    """Decide whether an address may be connected to: what is denied never, then what is allowed, then what is public.

    An operator allows networks for receivers of their own, and denies public ones that lead back inside. A cloud's
    metadata service is permitted only if it is allowed by itself, with all bits of its address.
    """

    allowed: tuple[Network, ...] = ()
    denied: tuple[Network, ...] = ()

    def permit(self, address: Address | str) -> bool:
        """Say whether an address may be connected to; a text that is no address in its usual form may not.

        Nor may one with a zone (fe80::1%2): it is another address to whoever compares, and the same one to the kernel.
        """
        found = address_of(address) if isinstance(address, str) else address
        if found is None or _has_zone(found):
            return False
        meant = _unwrapped(found)
        if _is_in(meant, self.denied) or _is_in(found, self.denied):
            return False
        allowing = [network for network in self.allowed if meant in network]
        if meant in METADATA:
            return any(network.num_addresses == 1 for network in allowing)
        return bool(allowing) or is_public(meant)


def listed(text: str) -> list[str]:
    """Split what a setting lists with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def networks_of(allowed: Iterable[str] = (), denied: Iterable[str] = ()) -> Networks:
    """Read the operator's networks.

    errors:  InvalidNetwork  names the text
    """
    return Networks(tuple(map(_network, allowed)), tuple(map(_network, denied)))


def is_public(address: Address) -> bool:
    """Say whether an address belongs to the public internet, so that no network of ours answers there."""
    meant = _unwrapped(address)
    if _has_zone(address) or (isinstance(meant, IPv6Address) and meant not in UNICAST):
        return False
    return meant.is_global and not _is_in(meant, DENIED)


def address_of(text: str) -> Address | None:
    """Read an address in its usual form; None for others, such as 127.1, that C libraries would also accept."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def _has_zone(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.scope_id is not None


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, however often it is wrapped."""
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
