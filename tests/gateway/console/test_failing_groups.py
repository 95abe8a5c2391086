"""Test the groups of failing deliveries on the page of deliveries."""

from __future__ import annotations

import html
import re

from tests.support.console import XSS, Browser
from tests.support.console_forms import form_on
from tests.support.deliveries import HANDLER, add_deliveries
from tests.support.factories import value

OWN = {"tenant_id": "'default'", "next_attempt_at": "now() + interval '1 h'"}


async def test_failing_deliveries_are_grouped_by_target_and_first_line_of_the_last_reason(
    dsn: str, browser: Browser
) -> None:
    failed = "jsonb_build_array(jsonb_build_object('reason', 'an earlier one'), jsonb_build_object('reason', {}))"
    answered = failed.format(r"'it answered 503 for customer_' || i || E'\n' || i")
    await add_deliveries(dsn, 3, HANDLER, **OWN, failed_attempts="2", failures=answered)
    await add_deliveries(dsn, 1, HANDLER, **OWN, failed_attempts="2", failures=failed.format(f"$${XSS}$$"))
    await add_deliveries(dsn, 2, "cart.left", **OWN, failed_attempts="2", failures=answered)
    await add_deliveries(dsn, 1, "cart.left", **OWN)
    await add_deliveries(dsn, 1, "cart.left", **OWN | {"tenant_id": "'other'"}, failed_attempts="2", failures=answered)

    shown = await browser.get("/deliveries?failing=true")
    shown.assert_escapes()
    one = await browser.get(f"/deliveries?failing=true&target={HANDLER}")

    assert f"3 {HANDLER} it answered 503 for #" in shown.main
    assert "2 cart.left it answered 503 for #" in shown.main
    assert f"1 {HANDLER} <script>" in shown.main
    assert ("3 " + HANDLER in one.main, "2 cart.left" in one.main) == (True, False)
    assert "by reason" not in (await browser.get("/deliveries")).main


async def test_each_group_of_failing_deliveries_leads_to_its_deliveries_and_to_their_retry(
    dsn: str, browser: Browser
) -> None:
    reason = "'it answered 503 for customer_' || i || case when i > 2 then ' again' else '' end || E'\\n' || i"
    failures = f"jsonb_build_array(jsonb_build_object('reason', {reason}))"
    await add_deliveries(dsn, 6, HANDLER, **OWN, failed_attempts="2", failures=failures)
    await add_deliveries(dsn, 1, HANDLER, **OWN)
    grouped = await browser.get("/deliveries?failing=true")
    links = [
        html.unescape(it) for it in re.findall(r'href="/console(/deliveries\?[^"]*reason_line=[^"]*)"', grouped.text)
    ]

    listed = [await browser.get(it) for it in links]

    assert [len(re.findall(r'/deliveries/\d+"', it.text)) for it in listed] == [4, 2], "the numbers of the groups"
    assert [
        ("by reason" in it.main, f'value="it answered 503 for #{more}"' in it.text)
        for it, more in zip(listed, (" again", ""), strict=True)
    ] == [(False, True)] * 2
    (retry,) = re.findall(r'href="/console(/deliveries/retry\?[^"]*)"', listed[1].text)
    form = form_on(await browser.get(html.unescape(retry)), "/deliveries/retry")
    retried = await browser.submit(form.action, form.fields)
    assert "2 deliveries are due now" in (await browser.follow(retried)).text
    assert await value(dsn, "select count(*) from shardclock.deliveries where next_attempt_at <= now()") == 2
