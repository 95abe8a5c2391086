"""Test that forms and filters accept the moments that pages show."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.console import Browser
from tests.support.gateways import Api


@pytest.mark.parametrize("suffix", ["", " UTC", "Z", ".123Z"])
async def test_a_moment_that_a_page_shows_is_accepted_by_filters(api: Api, browser: Browser, suffix: str) -> None:
    made = await api.post("/v1/timers", {"name": "order-1", "due_date": "2030-01-31T08:00:00Z"})
    key = made.json["timer_key"]
    moment = quote(f"2030-01-31 07:59:59{suffix}")

    for path in ("/log?since=", "/log?before=", "/audit?since=", "/dead-letters?died_before=", f"/timers/{key}?at="):
        shown = await browser.get(f"{path}{moment}")
        assert (shown.status, path) == (200, path)
    assert "order-1" in (await browser.get(f"/timers?due_from={moment}")).main
    assert "order-1" not in (await browser.get(f"/timers?due_before={moment}")).main


async def test_a_shown_moment_in_a_form_is_a_local_time_only_with_a_time_zone(browser: Browser) -> None:
    for given, due in (
        ({"due_date": "2031-01-31 08:00:00"}, "2031-01-31 08:00:00"),
        ({"due_date": "2031-01-31 08:00:00", "zone": "UTC"}, "2031-01-31 08:00:00"),
        ({"due_date": "2031-01-31 08:00:00", "zone": "Europe/Berlin"}, "2031-01-31 07:00:00"),
        ({"due_date": "2031-01-31 08:00:00 UTC", "zone": "Europe/Berlin"}, "2031-01-31 08:00:00"),
    ):
        done = await browser.submit("/timers/new", given)
        assert due in (await browser.follow(done)).main, given
