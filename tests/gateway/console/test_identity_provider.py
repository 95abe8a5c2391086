"""Test that people sign in at an identity provider: their rights, their names, and the end of their sessions."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote_plus, urlsplit

import pytest

from shardclock_server.gateway.oidc import provider as requests_to_provider
from shardclock_server.gateway.requests import key_lookups
from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser, browsing
from tests.support.factories import add_timers, query
from tests.support.identity_provider import (
    CLIENT,
    SECRET,
    IdentityProvider,
    SigningKey,
    asked_of,
    begin,
    finish,
    providing,
    sign_in,
    signing_people_in,
)


async def test_a_person_is_sent_to_the_provider_with_pkce_and_comes_back_with_a_session(
    dsn: str, person: Browser, provider: IdentityProvider
) -> None:
    shown = await person.get("/sign-in?to=%2Ftimers%3Fstate%3Dpaused")
    host = urlsplit(provider.url).netloc
    assert (f"Sign in at {host}" in shown.main, "API key" in shown.main) == (True, True)
    assert 'href="/console/sign-in/provider?to=%2Ftimers%3Fstate%3Dpaused"' in shown.text

    asked = await begin(person, provider, "/sign-in/provider?to=%2Ftimers%3Fstate%3Dpaused")
    assert {name: asked[name] for name in ("response_type", "client_id", "scope", "flow", "code_challenge_method")} == {
        "response_type": "code", "client_id": CLIENT, "scope": "openid profile email", "flow": "1",
        "code_challenge_method": "S256",
    }  # fmt: skip
    assert asked["redirect_uri"] == "http://127.0.0.1:1/console/sign-in/callback"

    shown = await finish(person, {"code": "c%2F1", "state": asked["state"], "iss": provider.url})

    assert (shown.status, shown.headers["Refresh"]) == (200, "0; url=/console/timers?state=paused")
    assert "/console/timers?state=paused" in shown.text
    _, headers, form = next(it for it in provider.requests if it[0] == "/token")
    name, _, secret = b64decode(headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
    assert (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET)
    assert (form["code"], form["redirect_uri"], "client_secret" in form) == ("c/1", asked["redirect_uri"], False)
    assert asked["code_challenge"] == urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode()[:-1]
    assert (await person.get("/timers")).status == 200
    (row,) = await query(
        dsn, "select *, expires_at - created_at as lasts, s::text as stored from shardclock.console_sessions s"
    )
    assert (row["issuer"], row["subject"], row["name"], row["groups"]) == (provider.url, "u-4711", "grace", ["ops"])
    assert (row["lasts"].total_seconds(), "scs_" in row["stored"]) == (12 * 3600, False)


async def test_below_a_sub_path_the_addresses_and_the_cookies_of_a_sign_in_have_the_path(
    dsn: str, provider: IdentityProvider
) -> None:
    path = "http://127.0.0.1:1/time"
    async with signing_people_in(dsn, provider.url, gateway_url=path) as api, browsing(api) as person:
        begun = await person.get("/sign-in/provider?to=%2Ftimers", Sec_Fetch_Site="same-origin")
        asked = asked_of(begun)
        provider.nonce = asked["nonce"]
        attempt, _, attributes = begun.headers["Set-Cookie"].partition(";")
        assert "Path=/time/console" in attributes
        assert asked["redirect_uri"] == f"{path}/console/sign-in/callback"

        ended = await finish(person, {"code": "c", "state": asked["state"], "iss": provider.url}, Cookie=attempt)

        assert (ended.status, ended.headers["Refresh"]) == (200, "0; url=/time/console/timers")
        session = next(it for it in person.cookies if it.key == "shardclock_session")
        assert session["path"] == "/time/console"
        shown = await person.get("/timers", Cookie=f"{session.key}={session.value}")
        assert (shown.status, 'href="/time/console/schedules"' in shown.text) == (200, True)


async def test_the_cookie_of_an_attempt_comes_back_from_the_provider_and_ends_with_the_attempt(
    person: Browser, provider: IdentityProvider
) -> None:
    begun = (await person.get("/sign-in/provider")).headers["Set-Cookie"]
    for part in ("shardclock_sign_in=", "HttpOnly", "SameSite=lax", "Path=/console", "Max-Age=600"):
        assert part in begun

    ended = await sign_in(person, provider)

    assert [it.key for it in person.cookies] == ["shardclock_session"]
    assert ended.headers["Cache-Control"] == "private, no-store"


async def test_the_groups_decide_on_scopes_and_tenant(person: Browser, provider: IdentityProvider) -> None:
    for groups, words, operates in (
        (["ops"], "Tenant default Scopes operate, admin", True),
        ("shop readers", "Tenant shop Scopes read", False),
        (["other", "cn=writers,ou=shop", "shop readers"], "Tenant shop Scopes read, write", False),
    ):
        provider.claims = {"groups": groups}
        assert (await sign_in(person, provider)).status == 200

        account = await person.get("/account")
        assert words in account.main
        assert (await person.get("/cluster")).status == (200 if operates else 403)


async def test_a_person_with_two_tenants_can_choose_only_one_of_these_tenants(
    person: Browser, provider: IdentityProvider
) -> None:
    provider.claims = {"groups": ["shop readers", "ada"]}
    await sign_in(person, provider)
    assert '<option value="ada">' in (await person.get("/account")).text

    refused = await person.submit("/tenant", {"tenant": "eve"})
    assert (refused.status, "your sign-in is for one tenant only" in refused.main) == (403, True)
    await person.submit("/tenant", {"tenant": "ada"})

    assert "Tenant ada Scopes read, write" in (await person.get("/account")).main


@pytest.mark.parametrize("groups", [[], ["opsx", "OPS", "ops "], None, 7, {"ops": True}, [["ops"]], "op"])
async def test_a_person_without_a_mapped_group_is_refused_in_one_sentence(
    dsn: str, person: Browser, provider: IdentityProvider, groups: object
) -> None:
    provider.claims = {"groups": groups}

    shown = await sign_in(person, provider)

    assert (shown.status, "is in no group that may sign in here" in shown.main) == (403, True)
    assert await query(dsn, "select from shardclock.console_sessions") == []
    assert (await person.get("/timers")).status == 303


async def test_a_sign_in_leads_to_no_other_site(person: Browser, provider: IdentityProvider) -> None:
    for to in ("//evil.example/x", "https://evil.example", "/%5Cevil.example", "javascript:alert(1)", "timers"):
        shown = await sign_in(person, provider, f"/sign-in/provider?to={to}")
        assert (shown.status, shown.headers["Refresh"]) == (200, "0; url=/console")
        assert "evil" not in shown.text
    shown = await sign_in(person, provider, "/sign-in/provider?to=/%0d%0aSet-Cookie:x=y")
    assert shown.headers["Refresh"] == "0; url=/console/Set-Cookie:x=y"


async def test_the_person_is_the_actor_in_the_audit_and_the_author_in_the_log(
    dsn: str, person: Browser, provider: IdentityProvider
) -> None:
    await add_timers(dsn, 1)
    await sign_in(person, provider)

    await person.submit("/cluster/hold", {"reason": "drill"})
    await person.submit("/timers/1/pause", {"reason": "drill"})

    (act,) = await query(dsn, "select * from shardclock.audit order by act_id")
    assert (act["interface"], act["verb"], act["key_prefix"]) == ("console", "hold", None)
    assert (act["key_name"], act["subject"]) == ("grace", "u-4711")
    shown = await person.get("/audit?actor=u-4711")
    assert ("grace" in shown.main, "u-4711" in shown.main) == (True, True)
    assert "by grace" in (await person.get("/timers/1")).main


async def test_a_name_is_shown_only_if_each_of_its_characters_is_visible(
    person: Browser, provider: IdentityProvider
) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"preferred_username": XSS}, XSS),
        ({"preferred_username": "gr\u202eace", "email": "grace@ops.example"}, "grace@ops.example"),
        ({"preferred_username": "grace\u200b", "email": "a@b\n"}, "u-4711"),
        ({"preferred_username": "x" * 101, "email": "boss@ops.example", "email_verified": False}, "u-4711"),
        ({"preferred_username": ["grace"], "email": None}, "u-4711"),
        ({"preferred_username": "עדה بحر ada"}, "עדה بحر ada"),
    ]
    for claims, name in cases:
        provider.claims = claims
        await sign_in(person, provider)
        shown = await person.get("/account")
        assert f"Person {' '.join(name.split())} u-4711" in shown.main
        assert "<script>alert" not in shown.text


async def test_claims_that_the_id_token_lacks_come_from_the_userinfo_of_the_same_person(
    person: Browser, provider: IdentityProvider
) -> None:
    provider.claims = {"groups": None, "preferred_username": None}
    provider.userinfo = {"sub": "u-4711", "groups": ["shop readers"], "email": "grace@ops.example", "iss": "evil"}
    await sign_in(person, provider)
    account = await person.get("/account")
    assert ("Tenant shop Scopes read" in account.main, "Person grace@ops.example" in account.main) == (True, True)

    provider.userinfo["sub"] = "u-1"
    shown = await sign_in(person, provider)
    assert (shown.status, "another person" in shown.main) == (403, True)


async def test_a_public_client_sends_no_secret_and_a_secret_in_a_file_is_read_at_each_sign_in(
    dsn: str, tmp_path: Path, provider: IdentityProvider
) -> None:
    async with (
        signing_people_in(dsn, provider.url, gateway_oidc_secret=None) as api,
        browsing(api) as browser,
    ):
        await sign_in(browser, provider)
    _, headers, form = next(it for it in provider.requests if it[0] == "/token")
    assert ("Authorization" in headers, form["client_id"], "client_secret" in form) == (False, CLIENT, False)

    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    file = tmp_path / "secret"
    async with (
        signing_people_in(dsn, provider.url, gateway_oidc_secret=None, gateway_oidc_secret_file=file) as api,
        browsing(api) as browser,
    ):
        assert (await sign_in(browser, provider)).status == 503
        file.write_text("first\n")
        await sign_in(browser, provider)
        file.write_text("second\n")
        await sign_in(browser, provider)
    sent = [form.get("client_secret") for path, _, form in provider.requests if path == "/token"]
    assert sent == [None, "first", "second"]


async def test_a_sign_out_ends_the_session_and_leads_to_the_sign_out_of_the_provider(
    dsn: str, person: Browser, provider: IdentityProvider
) -> None:
    await sign_in(person, provider)

    out = await person.submit("/sign-out")

    assert await query(dsn, "select from shardclock.console_sessions") == []
    assert (await person.get("/timers")).status == 303
    shown = await person.follow(out)
    assert (shown.status, "continues" in shown.main) == (200, True)
    assert f'href="{provider.url}/logout?client_id={CLIENT}"' in shown.text


async def test_a_session_ends_when_the_settings_give_its_groups_no_rights(
    dsn: str, person: Browser, provider: IdentityProvider
) -> None:
    await sign_in(person, provider)
    cookie = next(it for it in person.cookies if it.key == "shardclock_session")
    header = {"Cookie": f"{cookie.key}={cookie.value}"}
    assert (await person.api.get("/console/account", **header)).status == 200

    for issuer, groups in ((provider.url, "dev=read@shop"), ("https://other.example", "ops=read@shop")):
        async with signing_people_in(dsn, issuer, gateway_oidc_groups=groups) as api:
            assert b"API key" in (await api.get("/console/account", **header)).body
    async with signing_people_in(dsn, provider.url, gateway_oidc_groups="ops=read@shop") as api:
        assert b"<dd>read</dd>" in (await api.get("/console/account", **header)).body


async def test_an_expired_session_needs_a_new_sign_in(
    dsn: str, person: Browser, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookups, "KNOWN_S", -1.0)
    await sign_in(person, provider)
    assert (await person.get("/timers")).status == 200

    await query(dsn, "update shardclock.console_sessions set created_at = now() - interval '12 h', expires_at = now()")

    assert (await person.get("/timers")).status == 303


async def test_without_the_provider_the_gateway_starts_sessions_go_on_and_a_sign_in_is_refused_in_one_sentence(
    dsn: str, owner: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_to_provider, "FAILED_S", 0.0)
    async with providing() as provider:
        url = provider.url
        async with signing_people_in(dsn, url) as api, browsing(api) as browser:
            assert provider.requests == [], "nothing is asked before the first sign-in"
            await sign_in(browser, provider)
            provider.status = 500
            shown = await sign_in(browser, provider)
            assert (shown.status, "can't sign you in now" in shown.main) == (503, True)
            assert (await browser.get("/timers")).status == 200
    async with signing_people_in(dsn, url) as api, browsing(api) as browser:
        shown = await browser.get("/sign-in/provider?to=%2Ftimers")
        assert (shown.status, "can't sign you in now" in shown.main) == (503, True)
        assert 'value="/timers"' in shown.text, "a sign-in with a key leads to the page"
        key = (await keys.make(owner, WantedKey("ada", "night", ("read",)))).text
        assert (await browser.sign_in(key)).status == 303
        assert (await browser.submit("/sign-out")).location == "/console/sign-in"


async def test_a_new_key_of_the_provider_is_read_at_the_first_token_with_this_key(
    person: Browser, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_to_provider, "NEWER_KEYS_S", 0.0)
    await sign_in(person, provider)
    provider.key = SigningKey("second", "EdDSA")
    provider.keys = [provider.key.published]

    assert (await sign_in(person, provider)).status == 200
    assert provider.asked("/keys") == 2


async def test_tokens_with_unknown_keys_do_not_make_the_gateway_read_the_keys_each_time(
    person: Browser, provider: IdentityProvider
) -> None:
    provider.token = SigningKey("forged").sign({})
    for _ in range(5):
        shown = await sign_in(person, provider)
        assert (shown.status, "does not publish" in shown.main) == (403, True)

    assert provider.asked("/keys") <= 2
