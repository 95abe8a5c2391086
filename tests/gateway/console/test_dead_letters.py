"""Test the pages of deliveries and dead letters: what they show, each verb, and the rights of readers and tenants."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import urlencode

import pytest

from shardclock_server.service.keys import make
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser
from tests.support.console_forms import console_acts, hidden_fields, next_page, sign_in_as
from tests.support.deliveries import HANDLER, add_deliveries, add_worker, bury, declare, let_die
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api
from tests.support.operations import ends_of

LEFT = "select count(*) from shardclock.dead_letters"
OWN = {"tenant_id": "'default'"}
FAILURES = json.dumps([{"at": "2027-01-31T08:00:00+00:00", "attempt": 1, "reason": XSS, "worker": "f00d"}])


@pytest.fixture
async def letters(dsn: str) -> list[int]:
    """Make three dead letters, one after the other; return their keys."""
    return await let_die(dsn, 3)


async def test_dead_letters_are_listed_by_filter_and_each_text_of_a_tenant_is_escaped(
    dsn: str, browser: Browser
) -> None:
    await bury(dsn, 26, HANDLER)
    await query(
        dsn,
        """update shardclock.dead_letters set tenant_id = 'default', name = $1, reason = $1, failures = $2::jsonb,
            payload = to_jsonb($1::text), died_at = died_at - timer_key * interval '1 s'""",
        XSS,
        FAILURES,
    )
    first = await browser.get(f"/dead-letters?target={HANDLER}")
    first.assert_escapes()
    assert first.text.count("<tr>") == 26 + 2, "the list, and the only group"
    rest = await browser.get(next_page(first))
    assert (rest.text.count("<tr>"), "First page" in rest.main) == (2, True)
    assert "No dead letter matches" in (await browser.get("/dead-letters?target=other")).main
    wrong = await browser.get("/dead-letters?died_before=soon&target=order")
    assert (wrong.status, "died_before 'soon'" in wrong.main, 'value="order"' in wrong.text) == (422, True, True)
    one = await browser.get("/dead-letters/1")
    one.assert_escapes()
    assert "f00d" in one.main


async def test_an_operator_sees_the_reasons_of_all_tenants_and_opens_a_tenant(
    dsn: str, locked: Api, locked_browser: Browser, owner: Session
) -> None:
    await bury(dsn, 3)
    text = "update shardclock.dead_letters set tenant_id = 'shop-' || timer_key % 2, target = $1, reason = $1"
    await query(dsn, text, XSS)
    await sign_in_as(locked_browser, owner, "read", tenant=None)
    assert 'href="/console/dead-letters/all-tenants"' in (await locked_browser.get("/dead-letters")).text
    assert 'href="/console/dead-letters/all-tenants"' in (await locked_browser.get("")).text

    shown = await locked_browser.get("/dead-letters/all-tenants")

    shown.assert_escapes()
    assert re.search(r"Last 3 2 shop-[01] <script>", shown.main), shown.main
    switched = await locked_browser.submit("/tenant", {"to": "/dead-letters", "tenant": "shop-1"})
    assert (await locked_browser.follow(switched)).text.count("<tr>") == 2 + 1 + 2, "a group, and two dead letters"

    await sign_in_as(locked_browser, owner, "admin", tenant="shop-1")
    assert "all-tenants" not in (await locked_browser.get("/dead-letters")).text
    assert (await locked_browser.get("/dead-letters/all-tenants")).status == 403
    made = await make(owner, WantedKey("shop-1", "one", ("read",)))
    caller = locked.with_headers(Authorization=f"Bearer {made.text}")
    assert len((await caller.get("/v1/dead-letters/groups")).json["groups"]) == 1
    assert (await caller.get("/v1/dead-letters/groups?all_tenants=true")).status == 403


async def test_a_change_records_the_key_of_its_viewer(
    dsn: str, locked_browser: Browser, owner: Session, letters: list[int]
) -> None:
    (timer,) = await add_timers(dsn, 1, "now() + interval '1 hour'")
    prefix = await sign_in_as(locked_browser, owner, "read", "write", "operate")

    await locked_browser.submit(f"/timers/{timer}/cancel")
    await locked_browser.submit(f"/dead-letters/{letters[0]}/redrive")
    await locked_browser.submit(f"/dead-letters/{letters[1]}/discard")

    text = "select intent, detail ->> 'key_prefix' from shardclock.command_log where detail ? 'by' order by position"
    told = [tuple(row) for row in await query(dsn, text)]
    assert told == [("CANCELED", prefix), ("REDRIVEN", prefix), ("DISCARDED", prefix)]


async def test_dead_letters_are_grouped_by_reason_and_one_group_is_discarded(
    dsn: str, browser: Browser, letters: list[int]
) -> None:
    text = "update shardclock.dead_letters set reason = $1 || E'\\n' || timer_key where timer_key > $2"
    await query(dsn, text, XSS, letters[0])

    grouped = await browser.get("/dead-letters")
    grouped.assert_escapes()
    assert "2 order.expired <script>" in grouped.main
    group = f"/dead-letters/discard?{urlencode({'target': HANDLER, 'reason_line': XSS})}"
    of_group = await browser.get(group.replace("/discard", ""))
    assert (of_group.text.count("<tr>"), html.escape(group, quote=False) in of_group.text) == (3, True)
    counted = await browser.get(group)
    assert "2 dead letters would be discarded, of the target order.expired, with the reason '<script>" in counted.main
    await browser.submit("/dead-letters/discard", hidden_fields(counted))
    assert await ends_of(dsn) == [("dead-letters discard", "DONE", 2, 2)]

    assert await value(dsn, "select array_agg(timer_key) from shardclock.dead_letters") == letters[:1]


async def test_one_dead_letter_is_redriven_and_another_one_discarded(
    dsn: str, browser: Browser, letters: list[int]
) -> None:
    redriven = await browser.follow(await browser.submit(f"/dead-letters/{letters[0]}/redrive"))
    assert (
        "1 dead letter put back: 1 is due again" in redriven.text or "put back: 1 dead letter is due" in redriven.text
    )
    assert "WAITING" in redriven.main
    discarded = await browser.follow(await browser.submit(f"/dead-letters/{letters[1]}/discard", {"reason": "old"}))
    assert "1 dead letter discarded" in discarded.text

    assert await value(dsn, LEFT) == 1
    again = await browser.submit(f"/dead-letters/{letters[1]}/discard")
    assert (again.status, str(letters[1]) in again.main) == (404, True)
    assert await console_acts(dsn) == [
        ("dead-letters redrive", {"timer_key": letters[0]}, "done"),
        ("dead-letters discard", {"timer_key": letters[1], "reason": "old"}, "done"),
        ("dead-letters discard", {"timer_key": letters[1]}, "not done"),
    ]


@pytest.mark.parametrize("verb", ["redrive", "discard"])
async def test_all_dead_letters_of_a_filter_are_counted_first_and_later_ones_are_left_out(
    dsn: str, browser: Browser, letters: list[int], verb: str
) -> None:
    counted = await browser.get(f"/dead-letters/{verb}?target={HANDLER}")
    assert "3 dead letters would be" in counted.main
    assert await value(dsn, LEFT) == 3
    await query(
        dsn, "update shardclock.dead_letters set died_at = now() + interval '1 h' where timer_key = $1", letters[2]
    )

    fields = (
        hidden_fields(counted) | {"reason": "wrong address"}
        if verb == "discard"
        else hidden_fields(counted) | {"per_s": 50}
    )
    begun = await browser.submit(f"/dead-letters/{verb}", fields)

    assert await ends_of(dsn) == [(f"dead-letters {verb}", "DONE", 2, 2)]
    assert f"DONE dead-letters {verb} 2 2 of 2" in (await browser.follow(begun)).main
    assert await value(dsn, LEFT) == 1
    ((named, parameters, outcome),) = await console_acts(dsn)
    assert (named, outcome, parameters["target"]) == (f"dead-letters {verb}", "done", HANDLER)
    assert (parameters["matched"], parameters["operation_id"]) == (2, 1)
    assert 'href="/console/operations/1">operation 1</a>' in (await browser.get("/audit")).text
    assert (await browser.submit(f"/dead-letters/{verb}")).status == 422
    wrong = await browser.get(f"/dead-letters/{verb}?died_before=soon")
    assert (wrong.status, f"/console/dead-letters/{verb}" in wrong.actions) == (422, False)


async def test_deliveries_are_listed_retried_and_cancelled(dsn: str, browser: Browser) -> None:
    await declare(dsn, HANDLER)
    later = {"next_attempt_at": "now() + interval '1 h'", "failed_attempts": "1", "name": f"$${XSS}$$"}
    await add_deliveries(dsn, 3, **OWN, **later, failures=f"$${FAILURES}$$::jsonb")
    listed = await browser.get("/deliveries?failing=true")
    listed.assert_escapes()
    (await browser.get("/deliveries/1")).assert_escapes()

    assert "is due now" in (await browser.follow(await browser.submit("/deliveries/1/retry"))).text
    assert "is DISCARDED" in (await browser.follow(await browser.submit("/deliveries/2/cancel", {"reason": "x"}))).text
    counted = await browser.get(f"/deliveries/retry?target={HANDLER}")
    assert "1 delivery would be due now" in counted.main
    many = await browser.follow(await browser.submit("/deliveries/retry", hidden_fields(counted)))

    assert "1 delivery is due now" in many.text
    due = "select count(*) from shardclock.deliveries where next_attempt_at <= now()"
    assert await value(dsn, due) == 2
    assert [(verb, outcome) for verb, _, outcome in await console_acts(dsn)] == [
        ("deliveries retry", "done"), ("deliveries cancel", "done"), ("deliveries retry", "done"),
    ]  # fmt: skip
    ended = await browser.get("/deliveries/2")
    assert (ended.status, ended.actions) == (200, [])


async def test_the_targets_are_listed_with_their_workers_and_dead_letters(
    dsn: str, browser: Browser, letters: list[int]
) -> None:
    await query(dsn, "update shardclock.dead_letters set tenant_id = 'default'")
    await declare(dsn, HANDLER, "cart.left")
    await add_worker(dsn, 21)
    await add_deliveries(dsn, 2, "cart.left", **OWN)

    shown = await browser.get("/deliveries")

    assert f"{HANDLER} ENABLED 2 0 {len(letters)} cart.left NO WORKER 0 2 0" in shown.main
    assert f'href="/console/dead-letters?target={HANDLER}"' in shown.text
    assert "Workers" not in (await browser.get("/deliveries?target=cart.left")).main


async def test_a_dead_delivery_leads_to_its_dead_letter(browser: Browser, letters: list[int]) -> None:
    assert "it raised too often" in (await browser.follow(await browser.get(f"/deliveries/{letters[0]}"))).main


async def test_a_read_only_key_gets_no_buttons_and_another_tenant_gets_no_rows(
    dsn: str, locked_browser: Browser, owner: Session, letters: list[int]
) -> None:
    await add_deliveries(dsn, 1, **OWN)
    key = await value(dsn, "select timer_key from shardclock.deliveries")
    await sign_in_as(locked_browser, owner, "write")
    pages = ("/dead-letters", f"/dead-letters/{letters[0]}", "/deliveries", f"/deliveries/{key}")
    for path in pages:
        shown = await locked_browser.get(path)
        assert (shown.status, shown.actions, "that match" in shown.main) == (200, [], False), path
    for path in (
        f"/dead-letters/{letters[0]}/redrive", f"/dead-letters/{letters[0]}/discard", "/dead-letters/redrive",
        "/dead-letters/discard", f"/deliveries/{key}/retry", f"/deliveries/{key}/cancel", "/deliveries/retry",
    ):  # fmt: skip
        assert (await locked_browser.submit(path, {"every": "true"})).status == 403, path
    assert await value(dsn, LEFT) == 3

    await sign_in_as(locked_browser, owner, "operate", tenant="acme")
    for path in pages:
        shown = await locked_browser.get(path)
        assert shown.status == (404 if path[-1].isdigit() else 200), path
        assert HANDLER not in shown.main
    assert (await locked_browser.submit(f"/dead-letters/{letters[0]}/discard")).status == 404
    assert await value(dsn, LEFT) == 3
