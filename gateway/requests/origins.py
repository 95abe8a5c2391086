"""Compare a request's `Origin`, the address of the sending page, with the gateway's own addresses."""

from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers

from shardclock_server.gateway.requests.headers import header_of


def split_url(text: str) -> SplitResult:
    """Split a URL that a request has given; an invalid URL, such as `http://[::1`, has no parts."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def host_of(url: str) -> str:
    """Return the host and the port of a URL, in lower case; "" if there is none."""
    return split_url(url).netloc.lower()


def is_own_origin(headers: Headers, gateway_url: str | None) -> bool:
    """Return whether `Origin` equals the request's `Host`, or the address at which browsers reach the gateway.

    If a foreign name resolves to this gateway, both headers have this name and are equal. This is safe, because a page
    from this name can send neither the session cookie nor an API key.
    """
    hosts = {(header_of(headers, "Host") or "").lower(), host_of(gateway_url or "")}
    return host_of(header_of(headers, "Origin") or "") in hosts - {""}
