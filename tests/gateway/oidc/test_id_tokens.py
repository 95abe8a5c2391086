"""Test that only genuine ID tokens are accepted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from shardclock_server.gateway.oidc.grants import GroupGrants
from shardclock_server.gateway.oidc.id_tokens import UnknownKey, checked_claims
from shardclock_server.gateway.oidc.refusals import SignInRefused
from shardclock_server.gateway.oidc.registration import ClientRegistration
from tests.support.identity_provider import CLIENT, IdentityProvider, SigningKey, forged_token

ISSUER = "https://sso.example/realms/ops"
NONCE = "n-0S6_WzA2Mj"
RSA, EC = SigningKey("rsa", "RS256"), SigningKey("ec", "ES256")
PROVIDER = IdentityProvider(ISSUER, EC, [EC.published, RSA.published], nonce=NONCE)
REGISTRATION = ClientRegistration(ISSUER, CLIENT, "https://ops.example/console/sign-in/callback", GroupGrants(()))
HOUR_S = 3_600


def checked(token: object, *published: Mapping[str, Any]) -> dict[str, Any]:
    keys = jwt.PyJWKSet([dict(it) for it in published or PROVIDER.keys]).keys
    return checked_claims(token, keys, REGISTRATION, NONCE)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_genuine_token_is_accepted(algorithm: str) -> None:
    key = SigningKey("k", algorithm)

    assert checked(key.sign(PROVIDER.genuine()), EC.published, key.published)["sub"] == "u-4711"


@pytest.mark.parametrize(
    "claims",
    [
        {"iat": 50, "nbf": 50},
        {"exp": -30},
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "other"], "azp": CLIENT},
    ],
)
def test_clocks_may_differ_by_less_than_a_minute_and_a_token_may_have_several_audiences(claims: dict[str, Any]) -> None:
    now = int(time.time())
    moments = {name: now + value if isinstance(value, int) else value for name, value in claims.items()}

    assert checked(EC.sign(PROVIDER.genuine(**moments)))["sub"] == "u-4711"


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        ({"iss": ISSUER + "/"}, "issuer"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": [ISSUER]}, "Issuer"),
        ({"iss": None}, "iss"),
        ({"aud": "other"}, "Audience"),
        ({"aud": CLIENT + "x"}, "Audience"),
        ({"aud": []}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": [CLIENT, "other"]}, "azp"),
        ({"azp": "other"}, "azp"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": 7}, "nonce"),
        ({"nonce": "\ud800"}, "nonce"),
        ({"exp": time.time() - 90}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"iat": time.time() + HOUR_S}, "iat"),
        ({"nbf": time.time() + HOUR_S}, "nbf"),
        ({"iat": None}, "iat"),
        ({"sub": None}, "sub"),
        ({"sub": 7}, "Subject"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(claims: dict[str, Any], word: str) -> None:
    with pytest.raises(SignInRefused, match=word):
        checked(EC.sign(PROVIDER.genuine(**claims)))


def test_a_token_without_a_signature_is_refused() -> None:
    for algorithm in ("none", "None", "nOnE", "", None):
        with pytest.raises(SignInRefused, match="must have one of"):
            checked(forged_token(PROVIDER.genuine(), None, kid="ec", alg=algorithm))
    header, claims, _ = EC.sign(PROVIDER.genuine()).split(".")
    with pytest.raises(SignInRefused, match="refused"):
        checked(f"{header}.{claims}.")


def test_a_public_key_is_not_accepted_as_the_secret_of_an_hmac() -> None:
    public = RSA.private.public_key()
    for secret in (
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
        b"client's secret: +/%",
        b"",
    ):
        with pytest.raises(SignInRefused, match="HS256"):
            checked(forged_token(PROVIDER.genuine(), secret, kid="rsa"))
    # A symmetric key in the key set has no effect.
    symmetric = {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"}
    with pytest.raises(SignInRefused, match="HS256"):
        checked(forged_token(PROVIDER.genuine(), b"secret", kid="s"), EC.published, symmetric)


def test_only_the_algorithm_of_the_key_is_accepted() -> None:
    for forged in (RSA.sign(PROVIDER.genuine(), kid="ec"), EC.sign(PROVIDER.genuine(), kid="rsa")):
        with pytest.raises(UnknownKey):
            checked(forged)
    with pytest.raises(SignInRefused, match="PS256"):
        checked(jwt.encode(PROVIDER.genuine(), RSA.private, "PS256", {"kid": "rsa"}))


def test_a_token_of_another_key_is_refused() -> None:
    with pytest.raises(SignInRefused, match="Signature"):
        checked(SigningKey("ec").sign(PROVIDER.genuine()))
    with pytest.raises(UnknownKey):
        checked(SigningKey("new").sign(PROVIDER.genuine()))
    with pytest.raises(UnknownKey):
        checked(EC.sign(PROVIDER.genuine()), {**EC.published, "use": "enc"})


def test_a_key_in_the_header_of_the_token_is_not_used() -> None:
    forged = SigningKey("ec")
    for header in ({"jwk": forged.published}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/c"}):
        with pytest.raises(SignInRefused, match="Signature"):
            checked(forged.sign(PROVIDER.genuine(), **header))


def test_a_critical_header_is_refused() -> None:
    with pytest.raises(SignInRefused, match="crit"):
        checked(EC.sign(PROVIDER.genuine(), crit=["x"], x=1))


def test_a_token_may_omit_the_identifier_of_the_only_key() -> None:
    token = jwt.encode(PROVIDER.genuine(), EC.private, "ES256")
    assert checked(token)["sub"] == "u-4711", "one key of the set has this algorithm"

    with pytest.raises(UnknownKey):
        checked(token, EC.published, SigningKey("other").published)


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_a_short_rsa_key_is_refused() -> None:
    short = SigningKey("short", "RS256", rsa.generate_private_key(public_exponent=65_537, key_size=1_024))

    with pytest.raises(SignInRefused, match="2048"):
        checked(short.sign(PROVIDER.genuine()), short.published)


@pytest.mark.parametrize("token", [None, 7, "", "x", "a.b", "a.b.c", "ü.ü.ü", "." * 3, "e30.e30.e30", "x" * 70_000, {}])
def test_any_other_text_is_refused_as_an_id_token(token: object) -> None:
    with pytest.raises(SignInRefused):
        checked(token)
