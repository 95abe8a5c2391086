"""Test that a count of one on a page has its noun in the singular."""

from __future__ import annotations

import re

from shardclock_server.gateway.console.pages.excerpts import Excerpt
from shardclock_server.gateway.console.shell import TEMPLATES
from tests.support.console import Browser
from tests.support.deliveries import HANDLER, bury
from tests.support.factories import HolderClient, add_timers, query


async def test_one_failed_attempt_is_singular(dsn: str, browser: Browser) -> None:
    await bury(dsn, 2, HANDLER)
    await query(dsn, "update shardclock.dead_letters set tenant_id = 'default', failed_attempts = timer_key")

    one = (await browser.get("/dead-letters/1")).main
    assert ("after 1 failed attempt" in one, "failed attempts" in one) == (True, False)
    assert "after 2 failed attempts" in (await browser.get("/dead-letters/2")).main


async def test_one_timer_a_second_and_one_firing_are_singular(dsn: str, browser: Browser, shard: HolderClient) -> None:
    await add_timers(dsn, 1)
    await shard.fire((await shard.take()).claimed)
    await browser.submit("/cluster/forecast/shard", {"min": 1, "max": 2, "target_per_s": 1})

    assert "1 to 2, 1 timer a second each" in (await browser.get("/cluster")).main
    assert re.search(r"99 % of the last 1 firing\b", (await browser.get("")).main)


def test_one_character_that_is_not_shown_is_singular() -> None:
    parts = TEMPLATES.from_string('{% from "delivery_parts.html" import excerpt %}{{ excerpt("Payload", found) }}')

    assert "1 more character is not shown" in parts.render(found=Excerpt("x", 1))
    assert "1,234 more characters are not shown" in parts.render(found=Excerpt("x", 1_234))
