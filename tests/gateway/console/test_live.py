"""Test that one poll informs all open pages of changes, and that a stream ends with its session."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from shardclock.log.async_reading import log_end
from shardclock_server.gateway.console import live
from shardclock_server.gateway.requests import key_lookups
from shardclock_server.gateway.waits import changes
from shardclock_server.sql.session import Session
from tests.support.console import Browser
from tests.support.console_forms import sign_in_as
from tests.support.factories import BOUND_S, query, value
from tests.support.gateways import Api
from tests.support.live_pages import CANCEL, CHANGED, next_event


async def test_one_poll_informs_all_viewers_of_a_record_of_the_log(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "POLL_S", 0.05)
    monkeypatch.setattr(changes, "REFRESH_S", BOUND_S * 2)  # with this interval, each event has its own record
    polls = list[float]()

    async def counted(session: Session) -> int:
        polls.append(time.monotonic())
        return await log_end(session)

    monkeypatch.setattr(changes, "log_end", counted)
    async with api.stream("/console/live") as first, api.stream("/console/live") as second:
        events = [asyncio.create_task(next_event(pieces)) for pieces in (first, second)]
        told: list[bytes] = []
        async with asyncio.timeout(BOUND_S):
            while len(told) < 2:
                await query(dsn, CANCEL)
                await asyncio.wait(events, timeout=0.2)
                told = [event.result() for event in events if event.done()]

    assert [CHANGED in event for event in told] == [True, True]
    assert min(after - before for before, after in pairwise(polls)) >= 0.05, "one poll for both"


async def test_without_a_record_a_viewer_is_informed_after_the_refresh_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "POLL_S", 0.05)
    monkeypatch.setattr(changes, "REFRESH_S", 0.05)
    async with api.stream("/console/live") as pieces:
        assert CHANGED in await next_event(pieces)


async def test_a_stream_ends_with_its_session_and_frees_its_slot(
    dsn: str, locked: Api, locked_browser: Browser, owner: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((changes, "POLL_S"), (changes, "REFRESH_S"), (live, "EVENT_S")):
        monkeypatch.setattr(module, name, 0.05)
    monkeypatch.setattr(key_lookups, "KNOWN_S", -1.0)
    await sign_in_as(locked_browser, owner, "read")
    token = next(cookie.value for cookie in locked_browser.cookies if cookie.key == "shardclock_session")
    viewer = locked.with_headers(Cookie=f"shardclock_session={token}")
    async with viewer.stream("/console/live") as pieces, asyncio.timeout(BOUND_S):
        assert CHANGED in await next_event(pieces)
        await query(dsn, "update shardclock.api_keys set revoked_at = now()")
        async for _ in pieces:
            pass

    assert locked.gateway.wait_limits.ends.in_use == 0
    assert await value(dsn, "select count(*) from shardclock.console_sessions") == 1, "it ends by its key"


async def test_a_stream_needs_a_session_and_is_no_page(locked_browser: Browser, browser: Browser) -> None:
    assert (await locked_browser.get("/live")).status == 303
    assert (await browser.submit("/live")).status == 405
