"""Send requests to the identity provider: its metadata, its keys, tokens, and claims about a person.

The gateway sends the first request at the first sign-in, so it starts even if the provider is unreachable.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote_plus

import aiohttp
import jwt
from jwt.exceptions import PyJWTError

from shardclock_server.gateway.oidc.refusals import ProviderFailed
from shardclock_server.gateway.oidc.registration import ClientRegistration, is_safe_url
from shardclock_server.timers.refusal import shortened

DISCOVERY = "/.well-known/openid-configuration"
TIMEOUT_S = 5.0
METADATA_S = 600.0
KEYS_S = 60.0  # The gateway trusts a key for at most this time after the provider has withdrawn the key.
NEWER_KEYS_S = 5.0  # The shortest pause between two requests for keys if tokens name unknown keys.
FAILED_S = 1.0  # After a failed request, all sign-ins within this time fail with the same error.
BODY_BYTES_MAX = 1024 * 1024
REQUESTS_MAX = 20  # the limit of concurrent requests, so that a flood of attempts can't use all sockets of the gateway
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
OPTIONAL = ("userinfo_endpoint", "end_session_endpoint")
JSON = {"Accept": "application/json"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Metadata:
    """The values of the provider's discovery document that a sign-in needs; None: the provider lacks this endpoint."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    names_itself: bool  # Whether each answer contains the provider's issuer (RFC 9207).
    takes_basic: bool  # Whether the client's secret is sent in the header Authorization.


class Known(Generic[T]):
    """A document of the provider; concurrent sign-ins share one request for the document."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._found: tuple[T, float] | None = None
        self._failed: tuple[ProviderFailed, float] | None = None

    async def get(self, *, within_s: float) -> T:
        """Return the document, at most `within_s` old. After a failed request, all calls raise its error for a second.

        errors:  ProviderFailed
        """
        async with self._reading:
            now_s = time.monotonic()
            if self._found is not None and self._found[1] + within_s > now_s:
                return self._found[0]
            if self._failed is not None and self._failed[1] + FAILED_S > now_s:
                raise ProviderFailed(str(self._failed[0]))
            try:
                self._found = await self._read(), time.monotonic()
            except ProviderFailed as failure:
                self._failed = failure, time.monotonic()
                raise
            return self._found[0]


class Provider:
    """The client of one identity provider."""

    def __init__(self, registration: ClientRegistration) -> None:
        self._registration = registration
        self._metadata = Known(self._read_metadata)
        self._keys = Known(self._read_keys)
        self._free = asyncio.Semaphore(REQUESTS_MAX)

    async def metadata(self) -> Metadata:
        """Return the metadata, at most ten minutes old.

        errors:  ProviderFailed
        """
        return await self._metadata.get(within_s=METADATA_S)

    async def keys(self, *, newer: bool = False) -> Collection[jwt.PyJWK]:
        """Return the provider's keys, at most a minute old; `newer`: at most five seconds old.

        errors:  ProviderFailed
        """
        return await self._keys.get(within_s=NEWER_KEYS_S if newer else KEYS_S)

    async def _read_metadata(self) -> Metadata:
        issuer = self._registration.issuer
        return _metadata_of(await self._request("GET", issuer.rstrip("/") + DISCOVERY, headers=JSON), issuer)

    async def _read_keys(self) -> Collection[jwt.PyJWK]:
        return _keys_of(await self._request("GET", (await self.metadata()).jwks_uri, headers=JSON))

    async def redeem(self, code: str, verifier: str) -> Mapping[str, Any]:
        """Exchange a code for tokens.

        errors:  ProviderFailed  the provider does not answer, or refuses the code
        """
        metadata, registration = await self.metadata(), self._registration
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": registration.redirect_uri,
            "code_verifier": verifier,
        }
        headers, secret = dict(JSON), registration.client_secret()
        if secret is not None and metadata.takes_basic:
            headers["Authorization"] = aiohttp.encode_basic_auth(quote_plus(registration.client_id), quote_plus(secret))
        else:
            form |= {"client_id": registration.client_id} | ({} if secret is None else {"client_secret": secret})
        return await self._request("POST", metadata.token_endpoint, headers=headers, data=form)

    async def claims(self, access_token: object) -> Mapping[str, Any]:
        """Return the claims about the person; empty without an endpoint for claims, or for an unusable access token.

        errors:  ProviderFailed
        """
        url = (await self.metadata()).userinfo_endpoint
        if (
            url is None
            or not isinstance(access_token, str)
            or not (access_token.isascii() and access_token.isprintable())
        ):
            return {}
        return await self._request("GET", url, headers={**JSON, "Authorization": f"Bearer {access_token}"})

    async def _request(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """Send a request, and read the JSON object of the answer. A redirect counts as a failure.

        errors:  ProviderFailed
        """
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                self._free,
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session,
                session.request(method, url, allow_redirects=False, **options) as answer,
            ):
                body = await _read(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise ProviderFailed(f"the identity provider does not answer at {_place(url)} ({shortened(why)})") from None
        found = None
        with suppress(ValueError, RecursionError):
            found = json.loads(body)
        if answer.status != 200 or not isinstance(found, dict):
            said = found.get("error") if isinstance(found, dict) else None
            detail = f"{answer.status}, {shortened(said)}" if isinstance(said, str) else f"{answer.status}"
            raise ProviderFailed(f"the identity provider refuses a request to {_place(url)} ({detail})")
        return found


async def _read(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for piece in content.iter_any():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"the answer has more than {BODY_BYTES_MAX:,} bytes")
    return bytes(body)


def _place(url: str) -> str:
    return url.partition("?")[0]


def _metadata_of(document: Mapping[str, Any], issuer: str) -> Metadata:
    """Check the discovery document.

    errors:  ProviderFailed
    """
    if document.get("issuer") != issuer:
        raise ProviderFailed(
            f"the identity provider calls itself {shortened(str(document.get('issuer')))}, and"
            f" SHARDCLOCK_GATEWAY_OIDC_ISSUER is {shortened(issuer)}: both must be equal"
        )
    endpoints = {name: document[name] for name in (*NEEDED, *OPTIONAL) if document.get(name) is not None}
    for name in NEEDED:
        if name not in endpoints:
            raise ProviderFailed(f"the discovery document of {shortened(issuer)} has no {name}")
    for name, url in endpoints.items():
        if not isinstance(url, str) or not is_safe_url(url):
            raise ProviderFailed(f"the {name} of {shortened(issuer)} is not an https address")
    methods = document.get("token_endpoint_auth_methods_supported")
    takes_basic = not isinstance(methods, list) or "client_secret_basic" in methods
    return Metadata(
        authorization_endpoint=endpoints["authorization_endpoint"],
        token_endpoint=endpoints["token_endpoint"],
        jwks_uri=endpoints["jwks_uri"],
        userinfo_endpoint=endpoints.get("userinfo_endpoint"),
        end_session_endpoint=endpoints.get("end_session_endpoint"),
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        takes_basic=takes_basic,
    )


def _keys_of(document: Mapping[str, Any]) -> tuple[jwt.PyJWK, ...]:
    try:
        return tuple(jwt.PyJWKSet.from_dict(dict(document)).keys)
    except (PyJWTError, ValueError, TypeError, AttributeError) as error:
        raise ProviderFailed(f"the keys of the identity provider can't be read ({shortened(str(error))})") from None
