"""Identify the caller of a request: the tenant of its API key, and the rights of the key.

People sign in to the console with a key, or at an identity provider. A person's groups at the provider determine the
person's rights. A gateway without keys trusts the tenant that a request names, and listens on loopback only.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers

from shardclock.api.codes import NO_KEY, NOT_ALLOWED, NOT_FOUND, REFUSED
from shardclock.loopback import is_loopback
from shardclock_server.gateway.oidc.registration import ClientRegistration
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.key_lookups import KeyLookups
from shardclock_server.gateway.requests.origins import is_own_origin
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.service.keys import SCOPES, allows, found_or_refused
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB
from shardclock_server.sql.keys.keys import ApiKey
from shardclock_server.sql.keys.sessions import Person, SessionHolder
from shardclock_server.sql.served import Tenants, author_of
from shardclock_server.timers.model import NAME_CHARS_MAX, NAME_RULE
from shardclock_server.timers.refusal import Refusal, shortened

TENANT_HEADER = "Shardclock-Tenant"
# Cookies of the console.
SESSION_COOKIE, TENANT_COOKIE = "shardclock_session", "shardclock_tenant"
DEFAULT_TENANT = "default"
TENANT = "tenant_id"  # the key in a request's state under which the tenant of the authenticated caller is stored
BEARER = "bearer"
# In a text with one of these characters, other programs may find another host than this gateway.
NO_HOST = re.compile(r"[@/?#\\\s]")
# The values of `Sec-Fetch-Site` for requests of the user and of the gateway's own pages. Requests of other pages have
# other values.
OWN_SITES = frozenset({"none", "same-origin"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request: a tenant, scopes, and the API key or the person.

    `key` is the prefix of the API key, `name` the key's name. A person of the identity provider has no key: `subject`
    identifies the person, `name` is the person's name. An operator acts for the whole installation, and for any tenant
    that the request names.
    """

    tenant_id: str
    scopes: Collection[str]
    is_operator: bool
    key: str | None = None  # None for a person, and for a gateway without keys
    name: str | None = None
    subject: str | None = None
    choices: tuple[str, ...] | None = ()  # the tenants that the caller may choose in the console; None: all

    @property
    def is_signed_in(self) -> bool:
        """Return whether the caller has an API key or is a signed-in person."""
        return self.key is not None or self.subject is not None

    @property
    def author(self) -> str:
        """The author of the caller's changes, in the form that the log stores."""
        return author_of(self.key, self.subject, self.name)

    @property
    def _access(self) -> tuple[str, str]:
        """The source of the caller's rights, and the kind of this source: a key or a group."""
        return ("your sign-in", "group") if self.subject is not None else (f"the key {self.key}…", "key")

    @property
    def tenants(self) -> Tenants:
        """The tenants of the rows that Postgres may show during this request."""
        return frozenset({self.tenant_id})

    @property
    def sees_urls(self) -> bool:
        """Whether lists show full URLs of endpoints.

        This needs the scope `operate`, because a URL's path may be a secret.
        """
        return allows(self.scopes, "operate")

    def sees(self, tenant_id: str, target: str) -> bool:
        """Return whether the caller may see a timer and its records.

        Jobs belong to the whole installation, so only operators see the timers of jobs and their records.
        """
        return tenant_id == self.tenant_id and (self.is_operator or not target.startswith(TARGET_OF_JOB))

    def require(self, scope: str) -> None:
        """Require that the caller has a scope.

        errors:  Problem  the caller lacks the scope; the problem names the scope
        """
        if not allows(self.scopes, scope):
            shown, other = self._access
            raise Problem(NOT_ALLOWED, f"{shown} has no scope {scope}; use a {other} that has it")

    def require_operator(self) -> None:
        """Require that the caller may act for the whole installation.

        errors:  Problem  the caller belongs to one tenant
        """
        if not self.is_operator:
            shown, other = self._access
            means = "has all tenants" if self.subject is not None else "was made with --all-tenants"
            raise Problem(NOT_ALLOWED, f"{shown} is for one tenant only; use a {other} that {means}")


class Anyone:
    """Give each request all rights for the tenant that the request names, because only this machine can connect.

    A web page can make the user's browser send requests to this gateway. The browser then names the page in `Origin`,
    or in `Host` if the page's name resolves to this machine. The gateway refuses a foreign name in each of the two
    headers. A GET for an image or a script has no `Origin`. For this GET, the gateway checks `Sec-Fetch-Site`, which
    the browser sets and a page can't change.
    """

    async def viewer_of(self, headers: Headers, cookies: Mapping[str, str]) -> Caller | None:
        """Return a viewer of the chosen tenant, or of the default tenant."""
        caller = await self.caller_of(headers)
        return replace(caller, tenant_id=_tenant_chosen(cookies) or caller.tenant_id)

    async def caller_of(self, headers: Headers) -> Caller:
        """Return a caller of the tenant in the header, or of the default tenant.

        errors:  Problem  the request comes from another web page, or names another machine
        """
        host, origin = header_of(headers, "Host"), header_of(headers, "Origin")
        for header, place in (("Host", f"//{host or ''}"), ("Origin", origin)):
            if place is not None and not is_loopback(_host_of(place)):
                refused = f"{header} {shortened(header_of(headers, header))}"
                raise Problem(
                    NOT_ALLOWED,
                    f"{refused} is not this machine, and without API keys the gateway serves only this machine",
                )
        site = header_of(headers, "Sec-Fetch-Site")
        if site is not None and site.strip().lower() not in OWN_SITES:
            raise Problem(
                NOT_ALLOWED,
                f"Sec-Fetch-Site {shortened(site)} means that another website sent the request, and a gateway without"
                " API keys serves only programs on this machine; use a program, or set SHARDCLOCK_GATEWAY_KEYS to true",
            )
        return Caller(_tenant_named(headers) or DEFAULT_TENANT, SCOPES, is_operator=True, choices=None)


class KeyHolders:
    """Identify callers by their API keys, and viewers of the console by their sessions."""

    def __init__(
        self,
        lookups: KeyLookups[ApiKey],
        sessions: KeyLookups[SessionHolder],
        gateway_url: str | None = None,
        registration: ClientRegistration | None = None,
    ) -> None:
        self._lookups = lookups
        self.sessions = sessions
        self._gateway_url = gateway_url
        self._registration = registration

    async def caller_of(self, headers: Headers) -> Caller:
        """Return a caller of the key's tenant; an operator's key acts for the tenant that the request names.

        Programs send no `Origin`. A browser sends `Origin` for a page of another site, even if an add-on or a proxy
        adds a key to the request.

        errors:  Problem           the API key is missing or unknown
                 StoreUnavailable  the key can't be read now
        """
        if (origin := header_of(headers, "Origin")) is not None and not is_own_origin(headers, self._gateway_url):
            raise Problem(
                NOT_ALLOWED,
                f"Origin {shortened(origin)} is another website, and the gateway serves only programs and its own"
                " pages; behind a proxy set SHARDCLOCK_GATEWAY_URL to the address that browsers use",
            )
        scheme, _, text = (header_of(headers, "Authorization") or "").partition(" ")
        if scheme.lower() != BEARER or not text:
            raise _unauthorized("each request needs an API key: send it as Authorization: Bearer sck_…")
        key = await self.key_of(text)
        tenant_id, named = key.tenant_id, _tenant_named(headers)
        if tenant_id is not None and named not in (None, tenant_id):
            raise Problem(NOT_FOUND, f"{TENANT_HEADER} {shortened(named)}: your key has no access to this tenant")
        return _holder_of(key, named)

    async def key_of(self, text: str) -> ApiKey:
        """Find an API key by its text.

        errors:  Problem           the key is unknown, expired or revoked
                 StoreUnavailable  the key can't be read now
        """
        try:
            return found_or_refused(await self._lookups.find(text.strip()))
        except Refusal as error:
            raise _unauthorized(str(error)) from None

    async def viewer_of(self, headers: Headers, cookies: Mapping[str, str]) -> Caller | None:  # noqa: ARG002 - as in `Anyone`
        """Return the caller for a session's key or person; None: a sign-in is needed.

        An operator acts for the chosen tenant.
        """
        holder, chosen = await self.sessions.find(cookies.get(SESSION_COOKIE, "")), _tenant_chosen(cookies)
        if isinstance(holder, Person):
            return self._person_of(holder, chosen)
        return None if holder is None else _holder_of(holder, chosen)

    def _person_of(self, person: Person, chosen: str | None) -> Caller | None:
        """Return the caller for a person; None: the present settings grant nothing to the person's groups."""
        registration = self._registration
        if registration is None or registration.issuer != person.issuer:
            return None
        grants = registration.grants
        tenants = grants.tenants_of(person.groups)
        access = grants.access_of(person.groups, chosen if tenants is None or chosen in tenants else None)
        if access is None:
            return None
        tenant_id = access.tenant_id or chosen or DEFAULT_TENANT
        return Caller(
            tenant_id,
            access.scopes,
            is_operator=access.tenant_id is None,
            name=person.name,
            subject=person.subject,
            choices=tenants,
        )


def _holder_of(key: ApiKey, named: str | None) -> Caller:
    """Return the caller for a key; `named` is the tenant that the request names."""
    tenant_id = key.tenant_id or named or DEFAULT_TENANT
    is_operator = key.tenant_id is None
    choices = None if is_operator else ()
    return Caller(tenant_id, key.scopes, is_operator=is_operator, key=key.prefix, name=key.name, choices=choices)


def _host_of(place: str) -> str:
    if NO_HOST.search(place.partition("//")[2]):
        return ""
    try:
        return urlsplit(place).hostname or ""
    except ValueError:
        return ""


def is_tenant(text: str) -> bool:
    """Return whether a text can be the name of a tenant."""
    return 1 <= len(text) <= NAME_CHARS_MAX and text.isprintable()


def _tenant_chosen(cookies: Mapping[str, str]) -> str | None:
    name = unquote(cookies.get(TENANT_COOKIE, ""))
    return name if is_tenant(name) else None


def _tenant_named(headers: Headers) -> str | None:
    name = header_of(headers, TENANT_HEADER)
    if name is not None and not is_tenant(name):
        raise Problem(REFUSED, f"{TENANT_HEADER} {shortened(name)} is refused: it must be {NAME_RULE}")
    return name


def _unauthorized(detail: str) -> Problem:
    return Problem(NO_KEY, detail, headers={"WWW-Authenticate": 'Bearer realm="shardclock"'})
