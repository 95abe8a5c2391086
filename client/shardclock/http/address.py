"""The URL of the gateway, with the key and the tenant of requests."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from shardclock.loopback import is_loopback
from shardclock.refusal import shown

DEFAULT_URL = "http://127.0.0.1:9841"
URL_VARIABLE = "SHARDCLOCK_API_URL"
PORT_VARIABLE = "SHARDCLOCK_GATEWAY_PORT"
CHECK_GIVEN = "check the url that the client was given"
CHECK_ENVIRONMENT = f"check {URL_VARIABLE}"
CHECK_DEFAULT = f"the client has no url: if the gateway is elsewhere, pass its url, or set {URL_VARIABLE}"
KEY_VARIABLE = "SHARDCLOCK_API_KEY"
TENANT_HEADER = b"Shardclock-Tenant"
TENANT_CHARSET = "utf-8"  # the encoding with which the gateway decodes the header


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The URL, the key (never shown) and the tenant of a client; `check` is the advice if no gateway answers."""

    url: str
    check: str
    key: str | None = field(default=None, repr=False)
    tenant: str | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether requests are encrypted."""
        return self.url.startswith("https:")

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The headers of each request."""
        headers = {}
        if self.key is not None:
            headers[b"Authorization"] = f"Bearer {self.key}".encode()
        if self.tenant is not None:
            headers[TENANT_HEADER] = self.tenant.encode(TENANT_CHARSET)
        return headers


def address_of(url: str | None, key: str | None, tenant: str | None, *, insecure: bool) -> GatewayAddress:
    """Read the URL, the key and the tenant; the environment or a default replaces a missing value.

    errors:  ValueError  the URL is missing or is not an HTTP URL, the key or the tenant can't be sent, or the key would
                         be sent unencrypted over a network; the message does not show the key
    """
    given, check = _chosen(url)
    parts = _split(given)
    key = key or os.environ.get(KEY_VARIABLE) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError(f"the API key has characters that no API key has; give the key as it was shown (sck_…), or"
                         f" in {KEY_VARIABLE}")  # fmt: skip
    if key is not None and parts.scheme == "http" and not insecure and not is_loopback(parts.hostname or ""):
        raise ValueError(
            f"an API key over http to {shown(parts.hostname)} can be intercepted; use https, or pass insecure=True"
            " if the network is safe"
        )
    return GatewayAddress(given, check, key, None if tenant is None else _tenant(tenant))


def _chosen(url: str | None) -> tuple[str, str]:
    """Return the URL, and the advice to print if no gateway answers."""
    for found, check in ((url, CHECK_GIVEN), (os.environ.get(URL_VARIABLE), CHECK_ENVIRONMENT)):
        if found:
            return found.rstrip("/"), check
    return _url_of_this_machine(), CHECK_DEFAULT


def _url_of_this_machine() -> str:
    """Return the URL of the gateway that `up` runs on this machine.

    For handlers, `up` sets the variable SHARDCLOCK_GATEWAY_PORT. If a machine has two clusters, their gateways have
    different ports. Without the variable, handlers of the second cluster would call the first cluster.
    """
    port = os.environ.get(PORT_VARIABLE, "")
    if not port.isdecimal():
        return DEFAULT_URL
    if not int(port):
        raise ValueError(
            f"{PORT_VARIABLE} is 0, so the client does not know the gateway's port: pass the url, or set {URL_VARIABLE}"
        )
    return f"http://127.0.0.1:{int(port)}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # the port or the IPv6 address is invalid
        is_url = False
        parts = SplitResult("", "", "", "", "")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the URL of the gateway has a user name or a password; leave it out, and give the API key as key="
        )
    if not is_url or parts.query or parts.fragment:
        raise ValueError(f"url {shown(url)} is refused: it must be http or https, such as {DEFAULT_URL}")
    return parts


def _tenant(tenant: str) -> str:
    try:
        tenant.encode(TENANT_CHARSET)
    except UnicodeEncodeError:
        sendable = False
    else:
        sendable = tenant.isprintable() and tenant == tenant.strip() and tenant != ""
    if not sendable:
        raise ValueError(
            f"tenant {shown(tenant)} is refused: it must be printable text that neither begins nor ends with a space"
        )
    return tenant
