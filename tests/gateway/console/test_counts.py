"""Test that a count of one on a page has its noun in the singular."""

from __future__ import annotations

from tests.support.console import Browser
from tests.support.deliveries import HANDLER, bury
from tests.support.factories import query


async def test_one_failed_attempt_is_singular(dsn: str, browser: Browser) -> None:
    await bury(dsn, 2, HANDLER)
    await query(dsn, "update shardclock.dead_letters set tenant_id = 'default', failed_attempts = timer_key")

    one = (await browser.get("/dead-letters/1")).main
    assert ("after 1 failed attempt" in one, "failed attempts" in one) == (True, False)
    assert "after 2 failed attempts" in (await browser.get("/dead-letters/2")).main
