"""Decide whether a host name or an address is this machine; the clients and the gateway share this check."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a name or an address always means this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
