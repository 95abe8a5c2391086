"""Test the page of the log: its filters, its pages, its texts, and the rights to see records."""

from __future__ import annotations

import html
import re

import pytest

from shardclock_server.gateway.console.pages import log
from shardclock_server.gateway.console.pages.listing import ROWS
from shardclock_server.sql.clients import log_search, search
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser, Shown
from tests.support.console_forms import next_page, sign_in_as
from tests.support.factories import add_timers, query, value

ADD = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name,
        process_instance_key, detail
    )
    select
        clock_timestamp() - ($2 - i) * interval '1 minute', $1 + i,
        clock_timestamp() - ($2 - i) * interval '1 minute' - interval '90 seconds', now(), 1, $3, $4, 'USER', $5, $6,
        $7, jsonb_build_object('reason', $6::text)
    from generate_series(1, $2) i
    order by i
"""


async def add(
    dsn: str,
    count: int,
    *,
    first: int = 100,
    intent: str = "TRIGGERED",
    tenant: str = "default",
    target: str = "log",
    name: str | None = None,
    instance: int | None = None,
) -> None:
    """Write records a minute apart; the last record is written now."""
    await query(dsn, ADD, first, count, intent, tenant, target, name, instance)


def rows_of(shown: Shown) -> int:
    return max(0, shown.text.count("<tr>") - 1)


async def test_records_are_found_by_each_filter(dsn: str, browser: Browser) -> None:
    await add(dsn, 3, name=XSS, target="mail")
    await add(dsn, 2, first=200, intent="CANCELED", name="order-7", instance=41)
    await add(dsn, 4, first=300, tenant="eve", name="order-7")

    all_of_them = await browser.get("/log")
    all_of_them.assert_escapes()
    assert rows_of(all_of_them) == 5
    assert "TRIGGERED" in all_of_them.main
    assert "1 min 30 s" in all_of_them.main, "the lateness"
    assert "holder:" not in all_of_them.main
    await query(dsn, "update shardclock.command_log set holder = 255 where timer_key = 201")
    assert "reason: order-7 ; holder: 00000000000000ff" in (await browser.get("/log?event=CANCELED")).main
    for query_text, found in {
        "name=order-7": 2, "timer_key=201": 1, "event=CANCELED": 2, "target=mail": 3, "process_instance_key=41": 2,
        "event=TRIGGERED&target=mail": 3, "name=order-7&event=TRIGGERED": 0, "timer_key=301": 0, "timer_key=999": 0,
        "since=2999-01-01T00:00:00Z": 0, "before=2001-01-01T00:00:00Z": 0,
        "since=2001-01-01T00:00:00Z&before=2999-01-01T00:00:00Z": 5,
    }.items():  # fmt: skip
        shown = await browser.get(f"/log?{query_text}")
        assert (shown.status, rows_of(shown)) == (200, found), query_text
    for wrong in ("since=soon", "timer_key=none", "after=7", "nonsense=1"):
        assert (await browser.get(f"/log?{wrong}")).status == 422, wrong


async def test_pages_follow_each_other_without_a_gap(dsn: str, browser: Browser) -> None:
    await add(dsn, 2 * ROWS + 1, name="beat")
    for query_text in ("", "?name=beat"):
        shown = await browser.get(f"/log{query_text}")
        keys = re.findall(r"/timers/(\d+)", shown.text)
        for _ in range(2):
            shown = await browser.get(next_page(shown))
            keys += re.findall(r"/timers/(\d+)", shown.text)
        assert keys == [str(100 + i) for i in range(2 * ROWS + 1, 0, -1)]
        assert 'rel="next"' not in shown.text


async def test_a_long_search_ends_with_a_link_and_a_moment_is_found_without_a_read_of_later_records(
    dsn: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STEP_LEAST", 100)
    monkeypatch.setattr(log_search, "DISORDER", 10)
    monkeypatch.setattr(log, "SEARCH_S", -1.0)
    await add(dsn, 1, first=900, intent="PAUSED", name="rare")
    await add(dsn, 500)

    shown, clicks = await browser.get("/log?event=PAUSED"), 0
    while not rows_of(shown):
        assert "No record matches in the part that was searched" in shown.main
        (link,) = re.findall(r'href="/console([^"]*)">Search on', shown.text)
        shown, clicks = await browser.get(html.unescape(link)), clicks + 1
    assert clicks == 5

    moment = await value(dsn, "select recorded_at from shardclock.command_log where timer_key = 150")
    before = await browser.get(f"/log?before={moment:%Y-%m-%dT%H:%M:%S.%fZ}")
    assert re.findall(r"/timers/(\d+)", before.text)[:2] == ["149", "148"]


async def test_records_of_jobs_are_for_operators_and_a_timer_and_an_instance_lead_to_their_records(
    dsn: str, browser: Browser, locked_browser: Browser, owner: Session
) -> None:
    await add(dsn, 1, target="job:refresh", intent="STARTING")
    assert rows_of(await browser.get("/log")) == 1
    await sign_in_as(locked_browser, owner, "read")
    assert rows_of(await locked_browser.get("/log")) == 0

    (timer,) = await add_timers(dsn, 1, "now() + interval '1 hour'")
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'a/b'")
    assert f'href="/console/log?timer_key={timer}"' in (await browser.get(f"/timers/{timer}")).text
    assert 'href="/console/log?name=a%2Fb"' in (await browser.get("/timers/by-name/a%2Fb")).text
