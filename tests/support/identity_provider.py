"""An identity provider in the test's own process: it records requests, and answers with the test's own tokens."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.support.console import Browser, Shown
from tests.support.gateways import Api, serving

CLIENT, SECRET = "shardclock", "client's secret: +/%"
GROUPS = "ops=operate,admin@*; shop readers=read@shop; cn=writers,ou=shop=read,write@shop; ada=read,write@ada"


@dataclass
class SigningKey:
    """A private key, and its identifier in the provider's key set."""

    kid: str
    algorithm: str = "ES256"
    private: Any = None

    def __post_init__(self) -> None:
        make = {
            "RS256": lambda: rsa.generate_private_key(public_exponent=65_537, key_size=2_048),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        self.private = self.private or make[self.algorithm]()

    @property
    def published(self) -> dict[str, Any]:
        convert: Any = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}[self.algorithm]
        return {**json.loads(convert.to_jwk(self.private.public_key())), "kid": self.kid, "use": "sig"}

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        """Sign a token; `header` replaces values of its header."""
        # PyJWT's own `encode` refuses some claims that an attacker may write.
        body = json.dumps(dict(claims)).encode()
        return jwt.PyJWS().encode(body, self.private, self.algorithm, {"kid": self.kid, **header})


@dataclass
class IdentityProvider:
    """The state of the provider; a test changes the provider's answers."""

    url: str
    key: SigningKey
    keys: list[dict[str, Any]]
    metadata: dict[str, Any] = field(default_factory=dict)  # replaces values of the discovery document
    claims: dict[str, Any] = field(default_factory=dict)  # replaces claims of the ID token; None: the claim is missing
    token: Any = None  # an ID token in place of the genuine one
    userinfo: dict[str, Any] | None = None
    nonce: str = ""
    requests: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)
    status: int = 200
    instead: web.Response | None = None  # the answer in place of each other one

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth?flow=1",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/logout",
            **({} if self.userinfo is None else {"userinfo_endpoint": f"{self.url}/userinfo"}),
            **self.metadata,
        }

    def genuine(self, **claims: Any) -> dict[str, Any]:
        """Return the claims of a genuine ID token with the given changes; a claim with None is missing."""
        now = int(time.time())
        made = {
            "iss": self.url,
            "sub": "u-4711",
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": self.nonce,
            "preferred_username": "grace",
            "groups": ["ops"],
            **self.claims,
            **claims,
        }
        return {name: value for name, value in made.items() if value is not None}

    def asked(self, path: str) -> int:
        return sum(it[0] == path for it in self.requests)

    async def answer(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append((request.path, dict(request.headers), form))
        if self.instead is not None:
            return self.instead
        bodies: dict[str, Any] = {
            "/.well-known/openid-configuration": self.document,
            "/keys": lambda: {"keys": self.keys},
            "/token": lambda: {
                "token_type": "Bearer",
                "access_token": "access",
                "id_token": self.token or self.key.sign(self.genuine()),
            },
            "/userinfo": lambda: self.userinfo,
        }
        return web.json_response(bodies[request.path](), status=self.status)


@asynccontextmanager
async def providing(algorithm: str = "ES256") -> AsyncIterator[IdentityProvider]:
    key = SigningKey("first", algorithm)
    found = IdentityProvider("", key, [key.published])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield found
    finally:
        await runner.cleanup()


@asynccontextmanager
async def signing_people_in(dsn: str, issuer: str, **settings: Any) -> AsyncIterator[Api]:
    """Serve a gateway with sign-in at a provider."""
    given = {
        "gateway_url": "http://127.0.0.1:1",
        "gateway_oidc_issuer": issuer,
        "gateway_oidc_client_id": CLIENT,
        "gateway_oidc_secret": SECRET,
        "gateway_oidc_groups": GROUPS,
        **settings,
    }
    async with serving(dsn, needs_keys=True, **given) as api:
        yield api


def asked_of(shown: Shown) -> dict[str, str]:
    """Read the request with which the browser is sent to the provider."""
    return {name: values[0] for name, values in parse_qs(urlsplit(shown.location).query).items()}


async def begin(browser: Browser, provider: IdentityProvider, path: str = "/sign-in/provider") -> dict[str, str]:
    """Begin an attempt; the provider's next token has its nonce."""
    shown = await browser.get(path, Sec_Fetch_Site="same-origin")
    assert shown.status == 303, shown.main
    asked = asked_of(shown)
    provider.nonce = asked["nonce"]
    return asked


async def finish(browser: Browser, answer: Mapping[str, str], **headers: str) -> Shown:
    """Follow the provider's redirect back to the console."""
    query = "&".join(f"{name}={value}" for name, value in answer.items())
    return await browser.get(f"/sign-in/callback?{query}", Sec_Fetch_Site="cross-site", **headers)


async def sign_in(browser: Browser, provider: IdentityProvider, path: str = "/sign-in/provider") -> Shown:
    asked = await begin(browser, provider, path)
    return await finish(browser, {"code": "genuine", "state": asked["state"]})


def encoded(data: bytes) -> str:
    """Encode as base64url without padding."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def forged_token(claims: Mapping[str, Any], secret: bytes | None, **header: Any) -> str:
    """Make a token without a signature, or with HMAC, even if the library refuses the secret."""
    signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", **header}, dict(claims)))
    return f"{signed}.{'' if secret is None else encoded(hmac.digest(secret, signed.encode(), sha256))}"
