"""Test the sign-in at a certified OpenID provider, in a real browser."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Page, expect

from shardclock_server.gateway.oidc import provider as requests_to_provider
from shardclock_server.gateway.requests import key_lookups
from tests.support.chromium import WatchedPage, chromium, watched
from tests.support.factories import query
from tests.support.gateways import Api, serving
from tests.support.identity_provider import CLIENT, GROUPS, SECRET
from tests.support.oidc_provider import certified_provider, free_port, require_package

pytestmark = pytest.mark.exhaustive
CONFIDENTIAL = {"client_secret": SECRET}


@dataclass
class ConsoleWithProvider:
    """A gateway and the address of its provider; the provider may stop and start again."""

    api: Api
    port: int
    redirect_uri: str

    def provider(self, **client: Any) -> Any:
        """Run the provider."""
        return certified_provider(self.port, self.redirect_uri, client or CONFIDENTIAL)


@asynccontextmanager
async def place(dsn: str, **settings: Any) -> AsyncIterator[ConsoleWithProvider]:
    require_package()
    listener, port = socket.create_server(("127.0.0.1", 0)), free_port()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    given = {
        "gateway_url": url,
        "gateway_oidc_issuer": f"http://localhost:{port}",
        "gateway_oidc_client_id": CLIENT,
        "gateway_oidc_secret": SECRET,
        "gateway_oidc_groups": GROUPS,
        "gateway_oidc_scopes": "openid profile email groups",
        **settings,
    }
    async with serving(dsn, needs_keys=True, listener=listener, **given) as api:
        yield ConsoleWithProvider(api, port, f"{url}/console/sign-in/callback")


@asynccontextmanager
async def browser(*, java_script: bool = True) -> AsyncIterator[WatchedPage]:
    async with chromium() as started, watched(started, java_script_enabled=java_script) as opened:
        yield opened


async def sign_in(page: Page, person: str) -> None:
    """Sign in on the provider's pages: the person, and the consent of a new session."""
    await page.get_by_role("link", name=re.compile("Sign in at")).click()
    await page.locator("input[name=login]").fill(person)
    await page.locator("input[name=password]").fill("any")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()


@pytest.mark.parametrize("java_script", [True, False])
async def test_a_person_signs_in_works_and_signs_out(dsn: str, java_script: bool) -> None:
    async with place(dsn) as here, here.provider(), browser(java_script=java_script) as opened:
        page = opened.page
        await opened.open(f"{here.api.url}/console/timers?state=paused")
        await sign_in(page, "u-ops")
        await page.wait_for_url(f"{here.api.url}/console/timers?state=paused")
        if java_script:
            opened.errors = []  # the errors of the provider's own pages: they load fonts from elsewhere
            await opened.open(page.url)
            await opened.assert_sound()

        await opened.open(f"{here.api.url}/console/cluster")
        await page.locator("summary").filter(has_text="Hold").click()
        await page.locator("form[action*='/cluster/hold'] input[name=reason]").fill("drill")
        await page.locator("form[action*='/cluster/hold'] button").click()
        (act,) = await query(dsn, "select key_name, subject, key_prefix, verb from shardclock.audit")
        assert tuple(act) == ("grace", "u-ops", None, "hold")

        await page.get_by_role("link", name="default").click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("link", name="end it there, too").click()
        assert page.url.startswith(f"http://localhost:{here.port}/session/end?client_id={CLIENT}")
        await opened.open(f"{here.api.url}/console/timers")
        await expect(page.get_by_label("API key")).to_be_visible()


async def test_the_groups_decide_and_a_person_without_a_mapped_group_is_refused(dsn: str) -> None:
    async with place(dsn) as here, here.provider():
        async with browser() as opened:
            await opened.open(f"{here.api.url}/console/account")
            await sign_in(opened.page, "u-shop")
            await opened.page.wait_for_url(f"{here.api.url}/console/account")
            for text in ("ada@shop.example", "u-shop", "shop", "read"):
                await expect(opened.page.get_by_role("main").get_by_text(text, exact=True).first).to_be_visible()
        async with browser() as opened:
            await opened.open(f"{here.api.url}/console/account")
            await sign_in(opened.page, "u-other")
            await expect(opened.page.get_by_role("alert")).to_contain_text("is in no group that may sign in here")
        assert len(await query(dsn, "select from shardclock.console_sessions")) == 1


async def test_a_public_client_signs_in_after_its_session_has_expired(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookups, "KNOWN_S", -1.0)
    public = {"token_endpoint_auth_method": "none"}
    async with place(dsn, gateway_oidc_secret=None) as here, here.provider(**public), browser() as opened:
        await opened.open(f"{here.api.url}/console/timers")
        await sign_in(opened.page, "u-ops")
        await opened.page.wait_for_url(f"{here.api.url}/console/timers")
        await query(
            dsn, "update shardclock.console_sessions set created_at = now() - interval '1 d', expires_at = now()"
        )

        await opened.open(f"{here.api.url}/console/timers")
        # The session at the provider continues, so the provider asks for nothing.
        await opened.page.get_by_role("link", name=re.compile("Sign in at")).click()

        await opened.page.wait_for_url(f"{here.api.url}/console/timers")


async def test_a_replayed_answer_and_a_changed_nonce_begin_no_session(dsn: str) -> None:
    async with place(dsn) as here, here.provider(), browser() as opened:
        page, answers = opened.page, []
        page.on("request", lambda it: answers.append(it.url) if "/callback?" in it.url else None)
        await opened.open(f"{here.api.url}/console/timers")
        await sign_in(page, "u-ops")
        await page.wait_for_url(f"{here.api.url}/console/timers")
        await query(dsn, "delete from shardclock.console_sessions")
        await opened.open(answers[0])
        await expect(page.get_by_role("alert")).to_contain_text("has not begun this sign-in")

        begun = await page.context.request.get(f"{here.api.url}/console/sign-in/provider", max_redirects=0)
        await opened.open(re.sub(r"nonce=[^&]+", "nonce=another", begun.headers["location"]))
        await expect(page.get_by_role("alert")).to_contain_text("nonce")
        assert await query(dsn, "select from shardclock.console_sessions") == []


async def test_sessions_go_on_without_the_provider_and_its_new_keys_count(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_to_provider, "NEWER_KEYS_S", 0.0)
    monkeypatch.setattr(requests_to_provider, "METADATA_S", 0.0)
    monkeypatch.setattr(requests_to_provider, "FAILED_S", 0.0)
    async with place(dsn) as here, browser() as opened:
        page, timers = opened.page, f"{here.api.url}/console/timers"
        await opened.open(timers)
        await page.get_by_role("link", name=re.compile("Sign in at")).click()
        await expect(page.get_by_role("alert")).to_contain_text("can't sign you in now")
        async with here.provider():
            await opened.open(timers)
            await sign_in(page, "u-ops")
            await page.wait_for_url(timers)
        await opened.open(timers)
        await expect(page.get_by_role("heading", name="Timers")).to_be_visible()
        await query(dsn, "delete from shardclock.console_sessions")
        monkeypatch.setattr(here.api.gateway.callers.sessions, "_good", {})  # type: ignore[union-attr]
        async with here.provider():  # a restarted provider: with a new key, and without the session of the person
            await opened.open(timers)
            await sign_in(page, "u-ops")
            await page.wait_for_url(timers)
