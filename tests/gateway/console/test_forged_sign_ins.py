"""Test that a forged, replayed or mixed-up answer of an identity provider starts no session."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiohttp import web

from shardclock_server.gateway.oidc import provider as requests_to_provider
from tests.support.console import XSS, Browser, Shown
from tests.support.factories import query
from tests.support.identity_provider import IdentityProvider, SigningKey, begin, finish, forged_token, sign_in


async def assert_refused(dsn: str, browser: Browser, shown: Shown, words: str, status: int = 403) -> None:
    assert (shown.status, words in shown.main) == (status, True), shown.main
    assert 'role="alert"' in shown.text
    assert await query(dsn, "select from shardclock.console_sessions") == []
    assert "shardclock_sign_in" not in {it.key for it in browser.cookies}, "an attempt ends with its answer"


async def test_a_state_is_accepted_once(dsn: str, person: Browser, provider: IdentityProvider) -> None:
    asked = await begin(person, provider)
    answer = {"code": "genuine", "state": asked["state"]}
    assert (await finish(person, answer)).status == 200
    await query(dsn, "delete from shardclock.console_sessions")
    tokens = provider.asked("/token")

    await assert_refused(dsn, person, await finish(person, answer), "this browser has not begun this sign-in")

    assert provider.asked("/token") == tokens


async def test_the_answer_to_another_browser_is_refused(dsn: str, person: Browser, provider: IdentityProvider) -> None:
    """An attacker sends the link of the attacker's own sign-in, so that the person would work under this name."""
    theirs = await begin(person, provider)
    await begin(person, provider)

    shown = await finish(person, {"code": "attacker", "state": theirs["state"]})

    await assert_refused(dsn, person, shown, "belongs to another sign-in of this browser")
    assert provider.asked("/token") == 0


@pytest.mark.parametrize("state", ["", "x", "%C3%BC", "%00"])
async def test_a_wrong_state_is_refused(dsn: str, person: Browser, provider: IdentityProvider, state: str) -> None:
    await begin(person, provider)

    await assert_refused(dsn, person, await finish(person, {"code": "c", "state": state}), "another sign-in")


async def test_the_answer_of_another_provider_is_refused(dsn: str, person: Browser, provider: IdentityProvider) -> None:
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    for named in ({"iss": "https://evil.example"}, {}):
        asked = await begin(person, provider)
        shown = await finish(person, {"code": "c", "state": asked["state"], **named})
        await assert_refused(dsn, person, shown, "and not from")
    assert provider.asked("/token") == 0


async def test_the_refusal_of_the_provider_is_one_sentence_and_no_page_of_the_provider_s(
    dsn: str, person: Browser, provider: IdentityProvider
) -> None:
    for error, words in (("access_denied", "'access_denied'"), (XSS, "<script>")):
        asked = await begin(person, provider)
        quoted = error.replace("<", "%3C").replace(">", "%3E").replace('"', "%22").replace(" ", "+")
        shown = await finish(person, {"error": quoted, "state": asked["state"]})
        await assert_refused(dsn, person, shown, words)
        assert "<script>alert" not in shown.text
    await assert_refused(dsn, person, await finish(person, {"error": "call+555+now"}), "has not begun")


async def test_an_answer_without_a_code_is_refused(dsn: str, person: Browser, provider: IdentityProvider) -> None:
    asked = await begin(person, provider)

    await assert_refused(dsn, person, await finish(person, {"state": asked["state"]}), "has no code")


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"iss": "https://evil.example"},
        {"aud": "other"},
        {"exp": time.time() - 90},
        {"sub": "u\n"},
    ],
)
async def test_a_token_of_another_sign_in_client_or_provider_is_refused(
    dsn: str, person: Browser, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    provider.claims = claims

    await assert_refused(dsn, person, await sign_in(person, provider), "identity provider")


async def test_a_forged_token_is_refused(dsn: str, person: Browser, provider: IdentityProvider) -> None:
    asked = await begin(person, provider)
    for token in (
        SigningKey("first").sign(provider.genuine()),
        forged_token(provider.genuine(), None, alg="none"),
        forged_token(provider.genuine(), b"client's secret: +/%", kid="first"),
        7,
    ):
        provider.token = token
        await begin(person, provider)
        shown = await sign_in(person, provider)
        await assert_refused(dsn, person, shown, "ID token")
    assert asked["nonce"] not in {it.value for it in person.cookies}


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "http://evil.example/auth"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://sso.example/auth\r\nSet-Cookie: x=y"},
        {"token_endpoint": "http://10.0.0.7/token"},
        {"token_endpoint": 7},
        {"jwks_uri": "data:text/plain,x"},
        {"end_session_endpoint": "//evil.example"},
    ],
)
async def test_a_provider_with_another_name_or_without_https_is_not_used(
    dsn: str, person: Browser, provider: IdentityProvider, metadata: dict[str, Any]
) -> None:
    provider.metadata = metadata

    shown = await person.get("/sign-in/provider")

    await assert_refused(dsn, person, shown, "can't sign you in now", 503)
    assert "evil" not in shown.text


@pytest.mark.parametrize(
    "keys", [[], [7], [{"kty": "oct", "k": "c2VjcmV0"}], "keys", [{"kty": "RSA", "n": "AA", "e": "AQAB"}]]
)
async def test_without_a_usable_key_every_sign_in_is_refused(
    dsn: str, person: Browser, provider: IdentityProvider, keys: Any
) -> None:
    provider.keys = keys

    shown = await sign_in(person, provider)

    assert shown.status in (403, 503)
    assert await query(dsn, "select from shardclock.console_sessions") == []


async def test_an_endless_answer_and_a_redirect_of_the_provider_are_failures(
    dsn: str, person: Browser, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_to_provider, "FAILED_S", 0.0)
    answers = [
        web.Response(body=b" " * (requests_to_provider.BODY_BYTES_MAX + 1)),
        web.Response(status=302, headers={"Location": f"{provider.url}/keys"}),
        web.Response(body=b"[" * 100_000),
        web.Response(body=b"\xff"),
    ]
    for answer in answers:
        provider.instead = answer
        await assert_refused(dsn, person, await person.get("/sign-in/provider"), "can't sign you in now", 503)


async def test_a_gateway_without_a_provider_has_no_such_page(locked_browser: Browser) -> None:
    for path in ("/sign-in/provider", "/sign-in/callback?code=c&state=s"):
        shown = await locked_browser.get(path)
        assert (shown.status, "has no identity provider" in shown.main) == (404, True)
    assert "Sign in at" not in (await locked_browser.get("/sign-in")).main
