"""Check an endpoint's URL, headers and secrets when a tenant adds it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yarl import URL

from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.addresses import Networks, address_of
from shardclock_server.webhooks.signing import SigningKey, check_secrets

URL_CHARS_MAX = 2_048
HEADERS_MAX = 20
NAME_CHARS_MAX, VALUE_CHARS_MAX = 100, 4_000
# The limit of characters in all headers of a tenant. Most servers accept 8 KiB, including the sender's own headers.
HEADER_CHARS_MAX = 6_000
TIMEOUT_S_MIN, TIMEOUT_S_MAX = 1.0, 30.0
TIMEOUT_S = 15.0

# Other ports below 1024 are refused: mail servers and shells listen there, and a tenant could attack a third party.
PORTS_BELOW_1024 = frozenset({80, 443})
NAME_CHARACTERS_OF_HOST_MAX = 253
BEGIN = re.compile(r"https?://(?P<authority>[^/?#]+)", re.IGNORECASE)
# Hide everything up to the last @, because the end of the password is unknown in a broken URL.
USER_AND_PASSWORD, HIDDEN = re.compile(r"^(https?:/*)?.*@", re.IGNORECASE | re.DOTALL), r"\1…@"
LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# C libraries read a name with a numeric last label as an address: 127.1, 0x7f000001.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
LOOPBACK = "127.0.0.1"

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[\x21-\x7e]+([ \t]+[\x21-\x7e]+)*")
# Headers that frame the message, headers that the sender sets, and hop-by-hop headers.
RESERVED = frozenset(
    {
        "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie",
        "date", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    }
)  # fmt: skip
RESERVED_PREFIXES = ("webhook-", "proxy-", "forwarded", "x-forwarded-")


class InvalidEndpoint(Refusal):
    """An endpoint is refused: the rules forbid it, or it can't receive webhooks."""


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """The operator's rules for endpoints."""

    allow_http: bool = False
    networks: Networks = field(default_factory=Networks)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked endpoint."""

    url: URL
    headers: tuple[tuple[str, str], ...] = field(repr=False)  # headers may contain a tenant's tokens
    keys: tuple[SigningKey, ...] = field(repr=False)
    timeout_s: float = TIMEOUT_S


def check_endpoint(
    url: str,
    headers: Mapping[str, str],
    secrets: Sequence[str],
    *,
    timeout_s: float = TIMEOUT_S,
    rules: EndpointRules,
) -> Endpoint:
    """Check an endpoint.

    A host's name is not resolved, because its address may change with each attempt. `guard` checks the address of each
    attempt.

    errors:  InvalidEndpoint  the URL, a header or the timeout is refused.
             InvalidSecret    a secret is refused.
    """
    if not TIMEOUT_S_MIN <= timeout_s <= TIMEOUT_S_MAX:
        raise InvalidEndpoint(
            f"timeout_s {timeout_s:g} is refused: it must be from {TIMEOUT_S_MIN:g} to {TIMEOUT_S_MAX:g} seconds"
        )
    return Endpoint(check_url(url, rules), check_headers(headers), check_secrets(secrets), timeout_s)


def check_name(name: str) -> None:
    """Check the name of an endpoint; the target of a timer contains this name.

    errors:  InvalidEndpoint  the message has the name and the rule
    """
    if not NAME.fullmatch(name):
        raise InvalidEndpoint(
            f"endpoint name {shortened(name)} is refused: it has 1 to 100 lower-case letters, digits and . _ -, "
            "and begins with a letter or digit"
        )


def check_url(text: str, rules: EndpointRules) -> URL:
    """Check the URL of an endpoint, and parse it with aiohttp's parser.

    errors:  InvalidEndpoint  the message has the URL, the rule and the remedy
    """
    shown = f"url {shortened(USER_AND_PASSWORD.sub(HIDDEN, text))} is refused:"
    if len(text) > URL_CHARS_MAX:
        raise InvalidEndpoint(f"{shown} it has {len(text):,} characters, and may have {URL_CHARS_MAX:,}")
    # URL parsers disagree: some parsers drop spaces and unprintable characters, and some read a backslash as a slash.
    if not text.isprintable() or " " in text or "\\" in text:
        raise InvalidEndpoint(
            f"{shown} it has a space, a backslash or an unprintable character; percent-encode it (space: %20)"
        )
    begun = BEGIN.match(text)
    if begun is None:
        raise InvalidEndpoint(f"{shown} it must begin with https:// and a host")
    try:
        url = URL(text)
        host, port = url.raw_host or "", url.port or 0
    except (ValueError, IndexError):  # yarl raises IndexError for "https://[]@"
        raise InvalidEndpoint(f"{shown} it is no URL; write it like https://example.com/webhooks") from None
    for is_broken, rule in (
        (
            url.scheme == "http" and not rules.allow_http,
            "http is not encrypted; use https, or let the operator allow http (SHARDCLOCK_WEBHOOK_HTTP=true)",
        ),
        ("@" in begun["authority"], "a URL can't contain a user or a password; send them in the header authorization"),
        ("#" in text, "a fragment (#…) is never sent; leave it out"),
        (port < 1024 and port not in PORTS_BELOW_1024, "its port must be 80, 443 or at least 1024"),
        ("[" in begun["authority"] and ":" not in host, "the text in [ ] must be an IPv6 address"),
    ):
        if is_broken:
            raise InvalidEndpoint(f"{shown} {rule}")
    _check_host(host, shown, rules.networks)
    return url


def check_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Check a tenant's headers.

    shape:   returns the headers with names in lower case
    errors:  InvalidEndpoint  the message has the header's name, and never its value
    """
    _check_texts(headers)
    if len(headers) > HEADERS_MAX:
        raise InvalidEndpoint(f"{len(headers)} headers are refused: an endpoint may have {HEADERS_MAX}")
    checked = tuple(_header(name, value) for name, value in headers.items())
    if len(dict(checked)) < len(checked):
        raise InvalidEndpoint("headers are refused: two names differ only in upper and lower case; write the name once")
    if sum(len(name) + len(value) for name, value in checked) > HEADER_CHARS_MAX:
        raise InvalidEndpoint(f"headers are refused: together they may have {HEADER_CHARS_MAX:,} characters")
    return checked


def _check_texts(headers: object) -> None:
    # The headers come from a JSON column, which may hold any value.
    if not isinstance(headers, dict):
        raise InvalidEndpoint(f"headers are refused: they must be an object of texts, not {shortened(headers)}")
    for name, value in headers.items():
        if not isinstance(value, str):
            raise InvalidEndpoint(f"header {shortened(name)} is refused: its value must be a text")


def _header(name: str, value: str) -> tuple[str, str]:
    shown, lower = f"header {shortened(name)} is refused:", name.lower()
    if not TOKEN.fullmatch(name) or len(name) > NAME_CHARS_MAX:
        raise InvalidEndpoint(f"{shown} a name has letters, digits and -, at most {NAME_CHARS_MAX}")
    if lower in RESERVED or lower.startswith(RESERVED_PREFIXES):
        raise InvalidEndpoint(f"{shown} the sender or a proxy sets this header; use another name")
    if len(value) > VALUE_CHARS_MAX:
        raise InvalidEndpoint(f"{shown} its value may have {VALUE_CHARS_MAX:,} characters")
    if not VALUE.fullmatch(value):
        raise InvalidEndpoint(f"{shown} its value must be printable ASCII on one line, without spaces at its ends")
    return lower, value


def _check_host(host: str, shown: str, networks: Networks) -> None:
    name = host.lower().removesuffix(".")
    address = address_of(host)
    if address is None and not _is_name(name):
        raise InvalidEndpoint(f"{shown} its host is neither a name nor an address in its usual form")
    is_local = name == "localhost" or name.endswith(".localhost")
    if not networks.permit(address or LOOPBACK) and (address is not None or is_local):
        raise InvalidEndpoint(
            f"{shown} its host must be public; the operator can allow further networks (SHARDCLOCK_WEBHOOK_ALLOW)"
        )


def _is_name(name: str) -> bool:
    labels = name.split(".")
    return (
        len(name) <= NAME_CHARACTERS_OF_HOST_MAX
        and all(LABEL.fullmatch(label) for label in labels)
        and not NUMBER.fullmatch(labels[-1])
    )
