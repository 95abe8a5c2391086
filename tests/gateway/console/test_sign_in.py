"""Test that a key is exchanged for a session, that the session ends with its key, and that forged forms are refused."""

from __future__ import annotations

import pytest

from shardclock_server.gateway.requests import key_lookups
from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.console import Browser
from tests.support.factories import query


async def made(owner: Session, *scopes: str, tenant: str | None = "ada") -> str:
    return (await keys.make(owner, WantedKey(tenant, "night", scopes or ("read",)))).text


async def test_without_a_session_each_page_leads_to_the_sign_in_page(locked_browser: Browser) -> None:
    shown = await locked_browser.get("/timers?state=paused")
    assert (shown.status, shown.location) == (303, "/console/sign-in?to=%2Ftimers%3Fstate%3Dpaused")

    page = await locked_browser.follow(shown)
    assert page.status == 200
    assert "API key" in page.main
    assert 'value="/timers?state=paused"' in page.text


async def test_a_key_is_exchanged_for_a_session_whose_token_is_stored_nowhere(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    key = await made(owner)
    shown = await locked_browser.submit("/sign-in", {"key": key, "to": "/timers?state=paused"})

    assert (shown.status, shown.location) == (303, "/console/timers?state=paused")
    cookie = shown.headers["Set-Cookie"]
    for part in ("shardclock_session=scs_", "HttpOnly", "SameSite=strict", "Path=/console", "Max-Age=43200"):
        assert part in cookie
    assert "Secure" not in cookie, "a browser would drop the cookie on plain HTTP of this machine"
    (row,) = await query(
        dsn, "select s::text as stored, expires_at - created_at as lasts from shardclock.console_sessions s"
    )
    assert cookie.partition("scs_")[2][:20] not in row["stored"]
    assert row["lasts"].total_seconds() == 12 * 3600
    assert (await locked_browser.get("/timers")).status == 200
    assert "night" in (await locked_browser.get("/account")).main


async def test_an_unknown_key_is_refused_with_the_sentence_of_the_api(locked_browser: Browser) -> None:
    for key in ("", "sck_aaaaaaaa_" + "A" * 43, "x" * 300):
        shown = await locked_browser.sign_in(key)
        assert shown.status in (401, 422)
        assert "Set-Cookie" not in shown.headers
        assert 'role="alert"' in shown.text
        assert (await locked_browser.get("/timers")).status == 303


@pytest.mark.parametrize("end", ["revoked_at = now()", "expires_at = now()"])
async def test_a_session_ends_with_its_key(
    dsn: str, locked_browser: Browser, owner: Session, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(key_lookups, "KNOWN_S", -1.0)  # the gateway reads each session at each request
    await locked_browser.sign_in(await made(owner))
    assert (await locked_browser.get("/timers")).status == 200

    await query(dsn, f"update shardclock.api_keys set created_at = now() - interval '2 h', {end}")

    assert (await locked_browser.get("/timers")).status == 303


async def test_a_sign_out_ends_the_session_at_once(dsn: str, locked_browser: Browser, owner: Session) -> None:
    key = await made(owner)
    await locked_browser.sign_in(key)
    signed = await locked_browser.sign_in(key)
    cookie = signed.headers["Set-Cookie"].partition(";")[0]
    assert b"API key" not in (await locked_browser.api.get("/console/timers", Cookie=cookie)).body

    shown = await locked_browser.submit("/sign-out")

    assert shown.location == "/console/sign-in"
    assert b"API key" in (await locked_browser.api.get("/console/timers", Cookie=cookie)).body
    assert len(await query(dsn, "select from shardclock.console_sessions")) == 1, "the other session stays"


async def test_a_sign_in_leads_to_no_other_site(locked_browser: Browser, owner: Session) -> None:
    key = await made(owner)
    for to in ("//evil.example/x", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "timers"):
        shown = await locked_browser.submit("/sign-in", {"key": key, "to": to})
        assert (shown.status, shown.location) == (303, "/console")


async def test_only_an_operators_key_may_choose_a_tenant(locked_browser: Browser, owner: Session) -> None:
    await locked_browser.sign_in(await made(owner, tenant="ada"))
    refused = await locked_browser.submit("/tenant", {"tenant": "eve"})
    assert (refused.status, "is for one tenant only" in refused.main) == (403, True)

    await locked_browser.sign_in(await made(owner, tenant=None))
    chosen = await locked_browser.submit("/tenant", {"tenant": "Ädä/x", "to": "/timers"})
    assert chosen.location == "/console/timers"
    assert "Ädä/x" in (await locked_browser.follow(chosen)).text


async def test_a_form_of_another_site_is_refused(locked_browser: Browser, owner: Session) -> None:
    key = await made(owner)
    forged: tuple[dict[str, str], ...] = (
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
        {"Sec_Fetch_Site": "", "Origin": ""},
    )
    for headers in forged:
        assert (await locked_browser.submit("/sign-in", {"key": key}, **headers)).status == 403, headers
    await locked_browser.sign_in(key)
    for headers in forged:
        assert (await locked_browser.submit("/theme", {"theme": "dark"}, **headers)).status == 403, headers


async def test_a_form_with_the_right_origin_is_accepted_without_other_headers(
    locked_browser: Browser, owner: Session
) -> None:
    shown = await locked_browser.submit("/sign-in", {"key": await made(owner)}, Sec_Fetch_Site="")

    assert shown.status == 303


async def test_a_key_does_not_travel_by_plain_http_from_another_machine(
    locked_browser: Browser, owner: Session
) -> None:
    shown = await locked_browser.submit("/sign-in", {"key": await made(owner)}, Host="timers.example:80")

    assert (shown.status, "SHARDCLOCK_GATEWAY_URL" in shown.main) == (403, True)


async def test_a_page_with_the_name_of_a_key_is_not_shown_to_another_key(
    locked_browser: Browser, owner: Session
) -> None:
    for name in ("ann", "ben"):
        key = await keys.make(owner, WantedKey("ada", name, ("read",)))
        await locked_browser.sign_in(key.text)
        for path in ("/tasks", "/account"):
            assert name in (await locked_browser.get(path)).main
        assert name not in (await locked_browser.get("/timers")).text, "a shared page has no name"
