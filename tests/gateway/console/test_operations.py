"""Test the pages of bulk operations: what they show, their cancel, and the rights of readers and tenants."""

from __future__ import annotations

import html
import json
import re

import pytest

from shardclock_server.gateway.console import live
from shardclock_server.gateway.waits import changes
from shardclock_server.sql.session import Session
from tests.support.chromium import chromium, watched
from tests.support.console import XSS, Browser
from tests.support.console_forms import console_acts, next_page, sign_in_as
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api

ADD = """
    insert into shardclock.operations (
        request_id, due_at, matched, changed, unchanged_reasons, by_operator, tenant_id, verb, filter,
        change, interface, key_name, error
    )
    select
        gen_random_uuid(), now() + interval '30 min', 9, 3, '{"timer_ended": 1}', $2, $3, $4,
        jsonb_build_object('name_prefix', $1::text), jsonb_build_object('reason', $1::text), 'console', $1, $1
    from generate_series(1, $5::integer)
"""


async def add(
    dsn: str,
    text: str = XSS,
    *,
    by_operator: bool = False,
    tenant: str = "default",
    verb: str = "cancel",
    count: int = 1,
) -> None:
    """Add running operations, each with a text that a tenant chose; no gateway continues these operations."""
    await query(dsn, ADD, text, by_operator, tenant, verb, count)


async def test_operations_are_listed_by_filter_and_each_text_of_a_tenant_is_escaped(dsn: str, browser: Browser) -> None:
    await add(dsn, count=36)
    await add(dsn, "night", verb="dead-letters redrive")

    first = await browser.get("/operations")
    first.assert_escapes()
    assert first.text.count("<tr>") == 36
    rest = await browser.get(next_page(first))
    assert (rest.text.count("<tr>"), "First page" in rest.main) == (3, True)
    for asked in ("verb=dead-letters", "actor=night", "verb=dead-letters+redrive&state=running"):
        assert (await browser.get(f"/operations?{asked}")).text.count("<tr>") == 2, asked
    assert "No operation matches" in (await browser.get("/operations?state=DONE")).main
    wrong = await browser.get("/operations?state=odd")
    assert (wrong.status, "'odd' is unknown" in wrong.main) == (422, True)
    one = await browser.get("/operations/1")
    one.assert_escapes()
    assert "RUNNING cancel 4 4 of 9" in one.main
    assert "Unchanged 1 had ended" in one.main
    assert len(first.text.encode()) < 40_960


async def test_a_running_operation_is_cancelled_from_its_page(dsn: str, browser: Browser) -> None:
    await add(dsn, "closed")
    shown = await browser.get("/operations/1")
    assert shown.actions == ["/console/operations/1/cancel"]

    ended = await browser.submit("/operations/1/cancel")

    after = await browser.follow(ended)
    assert "operation 1 is CANCELED: 3 of 9 rows were changed" in after.text
    assert ("CANCELED cancel" in after.main, after.actions) == (True, [])
    again = await browser.submit("/operations/1/cancel")
    assert (again.status, "operation 1 is CANCELED already" in again.main) == (409, True)
    assert await console_acts(dsn) == [
        ("operations cancel", {"operation_id": 1}, "done"),
        ("operations cancel", {"operation_id": 1}, "not done"),
    ]


async def test_a_read_only_key_gets_no_buttons_and_is_refused_and_another_tenant_gets_no_rows(
    dsn: str, owner: Session, locked_browser: Browser
) -> None:
    await add(dsn, "night")
    await add(dsn, "secret", by_operator=True)
    await add(dsn, "letters", verb="dead-letters discard")

    await sign_in_as(locked_browser, owner, "read")
    listed = await locked_browser.get("/operations")
    assert ("night" in listed.main, "an operator" in listed.main, "secret" in listed.main) == (True, True, False)
    shown = await locked_browser.get("/operations/1")
    assert (shown.status, shown.actions) == (200, [])
    assert (await locked_browser.submit("/operations/1/cancel")).status == 403
    await sign_in_as(locked_browser, owner, "write")
    assert (await locked_browser.get("/operations/3")).actions == [], "it needs the scope operate"
    assert (await locked_browser.submit("/operations/3/cancel")).status == 403
    await sign_in_as(locked_browser, owner, "operate", tenant="acme")
    assert "night" not in (await locked_browser.get("/operations")).main
    for answer in (await locked_browser.get("/operations/1"), await locked_browser.submit("/operations/1/cancel")):
        assert answer.status == 404
    assert await value(dsn, "select count(*) from shardclock.operations where ended_at is not null") == 0


async def test_a_key_of_the_audit_leads_to_the_operation(dsn: str, api: Api, browser: Browser) -> None:
    await add_timers(dsn, 2, "now() + interval '30 min'")
    token = (await api.post("/v1/timers/bulk/pause?dry_run=true")).json["token"]
    number = (await api.post(f"/v1/timers/bulk/pause?token={token}")).json["operation_id"]

    shown = await browser.get("/audit")

    (link,) = re.findall(r'href="/console(/operations/[0-9]+)"', shown.text)
    assert link == f"/operations/{number}"
    assert "changed 2" in shown.main
    assert "DONE pause 2 2 of 2" in (await browser.get(link)).main


@pytest.mark.exhaustive
async def test_an_open_page_follows_the_progress_of_its_operation(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((changes, "POLL_S"), (changes, "REFRESH_S"), (live, "EVENT_S")):
        monkeypatch.setattr(module, name, 0.2)
    await add(dsn, json.dumps("x"))
    async with chromium() as browser, watched(browser) as opened:
        page = opened.page
        await opened.open(f"{api.url}/console/operations/1")
        await page.get_by_text("4 of 9").wait_for()
        await query(dsn, "update shardclock.operations set changed = 8, state = 'DONE', ended_at = now()")
        await page.get_by_text("9 of 9").wait_for()
        assert await page.get_by_text("Cancel the rest").count() == 0
        assert html.escape("x") in await page.get_by_role("main").inner_text()
