"""Whose request this is: the tenant of its API key, and what the key may do.

A gateway without keys takes each request for the tenant that it names; it listens on loopback only.
"""

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from gateway.requests.headers import header_of
from gateway.requests.problems import NO_KEY, NOT_ALLOWED, NOT_FOUND, REFUSED, Problem
from service.keys import SCOPES, UnknownKey, allows, authenticate
from sql.keys.keys import ApiKey
from sql.pool import Pool
from sql.session import NO_TENANTS, Tenants
from timers.model import NAME_CHARS_MAX, NAME_RULE
from timers.refusal import shortened

TENANT_HEADER = "Shardclock-Tenant"
DEFAULT_TENANT = "default"
BEARER = "bearer"
# A gateway asks Postgres about a key once in this time, so a revoked key works this long at most.
KNOWN_S = 2.0
KNOWN_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a tenant, with the scopes of its key; `key` is what is shown of the key, with its name.

    An operator acts for the whole installation, and for any tenant that it names.
    """

    tenant_id: str
    scopes: Collection[str]
    is_operator: bool
    key: str | None = None  # without keys there is none
    name: str | None = None

    @property
    def tenants(self) -> Tenants:
        """Say whose rows Postgres may show while this caller is served."""
        return frozenset({self.tenant_id})

    def require(self, scope: str) -> None:
        """Refuse what the key may not do.

        errors:  Problem  names the scope that is needed
        """
        if not allows(self.scopes, scope):
            raise Problem(NOT_ALLOWED, f"the key {self.key}… has no scope {scope}; use a key that has it")


class Callers(Protocol):
    """Find out whose request this is."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Return who asks.

        errors:  Problem           there is no such key
                 StoreUnavailable  nobody can tell now
        """


class Anyone:
    """Take each request for the tenant that it names, with all rights: for programs on this machine.

    A browser on this machine sends what any web page tells it to. It names that page as the `Origin`, or, if the page's
    own name was made to lead here, as the `Host`: neither is answered.
    """

    async def caller_of(self, headers: Headers) -> Caller:
        """Return the tenant of the header, or the default one."""
        host, origin = header_of(headers, "Host"), header_of(headers, "Origin")
        for header, place in (("Host", f"//{host or ''}"), ("Origin", origin)):
            if place is not None and not is_loopback(_host_of(place)):
                refused = f"{header} {shortened(header_of(headers, header))}"
                raise Problem(NOT_ALLOWED, f"{refused} is not this machine, and without API keys only that is served")
        return Caller(_tenant_named(headers) or DEFAULT_TENANT, SCOPES, is_operator=True)


class KeyHolders:
    """Know callers by their API keys."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[bytes, tuple[ApiKey, float]] = {}

    async def caller_of(self, headers: Headers) -> Caller:
        """Return the tenant of the key; a key of an operator acts for the tenant that the request names."""
        scheme, _, text = (header_of(headers, "Authorization") or "").partition(" ")
        if scheme.lower() != BEARER or not text:
            raise _unauthorized("each request needs an API key: send it as Authorization: Bearer sck_…")
        key = await self._look_up(text.strip())
        tenant_id, named = key.tenant_id, _tenant_named(headers)
        if tenant_id is not None and named not in (None, tenant_id):
            raise Problem(NOT_FOUND, f"{TENANT_HEADER} {shortened(named)}: your key knows no such tenant")
        tenant_id = tenant_id or named or DEFAULT_TENANT
        return Caller(tenant_id, key.scopes, is_operator=key.tenant_id is None, key=key.prefix, name=key.name)

    async def _look_up(self, text: str) -> ApiKey:
        digest, now_s = hashlib.sha256(text.encode()).digest(), time.monotonic()
        known = self._known.get(digest)
        if known is None or known[-1] < now_s:
            try:
                async with self._pool.session(NO_TENANTS) as session:
                    key = await authenticate(session, text)
            except UnknownKey as error:
                self._known.pop(digest, None)
                raise _unauthorized(str(error)) from None
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[digest] = (key, now_s + KNOWN_S)
        return known[0]


def is_loopback(host: str) -> bool:
    """Say whether a name or address leads to this machine, and nowhere else."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(place: str) -> str:
    try:
        return urlsplit(place).hostname or ""
    except ValueError:
        return ""


def _tenant_named(headers: Headers) -> str | None:
    name = header_of(headers, TENANT_HEADER)
    if name is not None and not (1 <= len(name) <= NAME_CHARS_MAX and name.isprintable()):
        raise Problem(REFUSED, f"{TENANT_HEADER} {shortened(name)} is refused: it must be {NAME_RULE}")
    return name


def _unauthorized(detail: str) -> Problem:
    return Problem(NO_KEY, detail, headers={"WWW-Authenticate": 'Bearer realm="shardclock"'})
