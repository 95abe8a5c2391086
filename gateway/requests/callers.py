"""Whose request this is: the tenant of its API key, and what the key may do.

A gateway without keys takes each request for the tenant that it names; it listens on loopback only.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.key_lookups import KeyLookups
from shardclock_server.gateway.requests.problems import NO_KEY, NOT_ALLOWED, NOT_FOUND, REFUSED, Problem
from shardclock_server.service.job_runs import TARGET_OF_JOB
from shardclock_server.service.keys import SCOPES, UnknownKey, allows, found_or_refused
from shardclock_server.sql.served import Tenants
from shardclock_server.timers.model import NAME_CHARS_MAX, NAME_RULE
from shardclock_server.timers.refusal import shortened

TENANT_HEADER = "Shardclock-Tenant"
DEFAULT_TENANT = "default"
TENANT = "tenant_id"  # the place in a request's state of its known caller's tenant
BEARER = "bearer"
NO_HOST = re.compile(r"[@/?#\\\s]")  # a host with one of these is read as another one by other programs
# `Sec-Fetch-Site` of a user's own requests and of the gateway's own page; requests of other pages have other values.
OWN_SITES = frozenset({"none", "same-origin"})


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

    def sees(self, tenant_id: str, target: str) -> bool:
        """Say whether a timer and its records are shown to the caller.

        Jobs are the whole installation's: keys for all tenants alone see their timers, records and operators' reasons.
        """
        return tenant_id == self.tenant_id and (self.is_operator or not target.startswith(TARGET_OF_JOB))

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
    own name was made to lead here, as the `Host`: neither is answered. A GET of an image or a script has no `Origin`:
    `Sec-Fetch-Site`, which no page can change, tells that it is another page's.
    """

    async def caller_of(self, headers: Headers) -> Caller:
        """Return the tenant of the header, or the default one."""
        host, origin = header_of(headers, "Host"), header_of(headers, "Origin")
        for header, place in (("Host", f"//{host or ''}"), ("Origin", origin)):
            if place is not None and not is_loopback(_host_of(place)):
                refused = f"{header} {shortened(header_of(headers, header))}"
                raise Problem(NOT_ALLOWED, f"{refused} is not this machine, and without API keys only that is served")
        site = header_of(headers, "Sec-Fetch-Site")
        if site is not None and site.strip().lower() not in OWN_SITES:
            raise Problem(
                NOT_ALLOWED,
                f"Sec-Fetch-Site {shortened(site)} tells of another web page, and without API keys only programs on"
                " this machine are served; ask from a program, or set SHARDCLOCK_GATEWAY_KEYS to true",
            )
        return Caller(_tenant_named(headers) or DEFAULT_TENANT, SCOPES, is_operator=True)


class KeyHolders:
    """Know callers by their API keys."""

    def __init__(self, lookups: KeyLookups) -> None:
        self._lookups = lookups

    async def caller_of(self, headers: Headers) -> Caller:
        """Return the tenant of the key; a key of an operator acts for the tenant that the request names."""
        scheme, _, text = (header_of(headers, "Authorization") or "").partition(" ")
        if scheme.lower() != BEARER or not text:
            raise _unauthorized("each request needs an API key: send it as Authorization: Bearer sck_…")
        try:
            key = found_or_refused(await self._lookups.find(text.strip()))
        except UnknownKey as error:
            raise _unauthorized(str(error)) from None
        tenant_id, named = key.tenant_id, _tenant_named(headers)
        if tenant_id is not None and named not in (None, tenant_id):
            raise Problem(NOT_FOUND, f"{TENANT_HEADER} {shortened(named)}: your key knows no such tenant")
        tenant_id = tenant_id or named or DEFAULT_TENANT
        return Caller(tenant_id, key.scopes, is_operator=key.tenant_id is None, key=key.prefix, name=key.name)


def is_loopback(host: str) -> bool:
    """Say whether a name or address leads to this machine, and nowhere else."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(place: str) -> str:
    if NO_HOST.search(place.partition("//")[2]):
        return ""
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
