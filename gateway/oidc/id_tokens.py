"""Check an ID token by the rules of OpenID Connect Core 3.1.3.7, without I/O."""

import hmac
from collections.abc import Collection
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from shardclock_server.gateway.oidc.refusals import SignInRefused
from shardclock_server.gateway.oidc.registration import ClientRegistration

# Only algorithms that sign with a private key of the provider. A token with `none` has no signature. The secret of an
# HMAC would be the client's secret or, in an attack, the provider's public key.
ALGORITHMS = ("RS256", "ES256", "EdDSA")
SKEW_S = 60  # the allowed difference between the clocks of the provider and the gateway
TOKEN_CHARS_MAX = 64 * 1024
REQUIRED = ["iss", "sub", "aud", "exp", "iat", "nonce"]


class UnknownKey(Exception):
    """None of the known keys can have signed the token; the provider may have new keys."""


def checked_claims(
    token: object, keys: Collection[jwt.PyJWK], registration: ClientRegistration, nonce: str
) -> dict[str, Any]:
    """Check an ID token, and return its claims.

    errors:  SignInRefused  the token is not genuine, has expired, or was made for another client or another attempt
             UnknownKey     no known key has the identifier and the algorithm in the token's header
    """
    if not isinstance(token, str) or not token.isascii() or len(token) > TOKEN_CHARS_MAX:
        raise SignInRefused("the answer of the identity provider has no ID token")
    try:
        claims = jwt.decode(
            token,
            _key_of(token, keys),
            algorithms=ALGORITHMS,
            audience=registration.client_id,
            issuer=registration.issuer,
            leeway=SKEW_S,
            options={"require": REQUIRED, "enforce_minimum_key_length": True},
        )
    except (PyJWTError, ValueError, TypeError, OverflowError) as error:
        raise SignInRefused(f"the ID token of the identity provider is refused ({error})") from None
    _check_client(claims, registration.client_id)
    given = claims["nonce"]
    if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "replace"), nonce.encode()):
        raise SignInRefused("the ID token of the identity provider belongs to another sign-in (nonce)")
    return claims


def _key_of(token: str, keys: Collection[jwt.PyJWK]) -> jwt.PyJWK:
    """Choose the key by the identifier in the token's header; without an identifier, exactly one key must fit."""
    header = jwt.get_unverified_header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise SignInRefused(f"the ID token has the algorithm {algorithm}, but must have one of {', '.join(ALGORITHMS)}")
    fitting = [
        key
        for key in keys
        if key.algorithm_name == algorithm and key.public_key_use in (None, "sig") and kid in (None, key.key_id)
    ]
    if len(fitting) != 1:
        raise UnknownKey
    return fitting[0]


def _check_client(claims: dict[str, Any], client_id: str) -> None:
    """Refuse a token with several audiences that was issued to another client."""
    audience, party = claims["aud"], claims.get("azp")
    if party is None and (isinstance(audience, str) or len(audience) == 1):
        return
    if party != client_id:
        raise SignInRefused("the ID token of the identity provider was issued to another client (azp)")
