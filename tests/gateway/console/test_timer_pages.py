"""Test the pages of timers: search, one timer with its story, its verbs, and changes of all that match."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from shardclock_server.gateway.console.pages import timers
from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser
from tests.support.console_forms import next_page
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api
from tests.support.operations import ends_of

HOUR = {"delay": "PT1H"}
NAMES = ["a/b % c\"d'e", "{}{{x}}", "naïve 🚀 مرحبا é", "n" * 200]


async def made(api: Api, **fields: object) -> int:
    """Schedule a timer, due in an hour if no date is given."""
    given = fields if {"due_date", "delay", "schedule"} & fields.keys() else {**HOUR, **fields}
    done = await api.post("/v1/timers", given)
    assert done.status in (200, 201), done
    key: int = done.json["timer_key"]
    return key


async def key_of(owner: Session, tenant: str, *scopes: str) -> str:
    """Make an API key."""
    return (await keys.make(owner, WantedKey(tenant, "night", scopes))).text


async def recorded(dsn: str) -> list[str]:
    """List the intents in the log."""
    return [row["intent"] for row in await query(dsn, "select intent from shardclock.command_log order by position")]


async def test_a_search_finds_timers_by_the_filter_in_its_url(api: Api, browser: Browser) -> None:
    await made(api, name="order-1", due_date="2030-01-31T08:00:00Z")
    await made(api, name="invoice-1", due_date="2031-01-31T08:00:00Z")
    await made(api, name="report", schedule="R/P1D")
    await api.post("/v1/timers/by-name/order-1/pause")

    both = await browser.get("/timers?name_contains=-1&state=pending")
    assert ("invoice-1" in both.main, "order-1" in both.main) == (True, False)
    assert "order-1" in (await browser.get("/timers?state=paused")).main
    only = (await browser.get("/timers?only_schedules=true")).main
    assert ("report" in only, "R/P1D" in only, "invoice-1" in only) == (True, True, False)
    window = (await browser.get("/timers?due_from=2031-01-01T00%3A00%3A00Z")).main
    assert ("invoice-1" in window, "report" in window) == (True, False)
    nothing = await browser.get("/timers?name_prefix=nothing")
    assert "No pending timer matches." in nothing.main


async def test_a_wrong_filter_is_a_sentence_and_the_form_keeps_the_input(browser: Browser) -> None:
    for wrong, words in (
        ("due_from=soon", "due_from 'soon'"),
        ("state=odd", "'odd' is unknown"),
        ("colour=red", "colour"),
        ("after=1", "'1' is not the `next` of a page"),
    ):
        shown = await browser.get(f"/timers?{wrong}&name_prefix=order-")
        assert (shown.status, words in shown.main, 'value="order-"' in shown.text) == (422, True, True), wrong


async def test_a_long_list_has_pages_of_fifty(api: Api, browser: Browser) -> None:
    await api.post_lines(*({"delay": "PT1H", "name": f"n{number:03}"} for number in range(51)))

    first = await browser.get("/timers?name_prefix=n")
    (following,) = re.findall(r'href="/console([^"]*)" rel="next"', first.text)
    second = await browser.get(following.replace("&amp;", "&"))

    assert (first.text.count("<tr>"), second.text.count("<tr>")) == (51, 2)
    assert "name_prefix=n" in following
    assert first.headers["Content-Encoding"] == "gzip"
    assert int(first.headers["Content-Length"]) < 8_192, "with style and scripts the first load is below 40 KiB"
    assert 'rel="next"' not in second.text


async def test_the_page_of_a_timer_shows_its_timeline_its_rule_and_its_next_occurrences(
    api: Api, browser: Browser
) -> None:
    await made(api, name="report", schedule="0 8 * * MON", zone="Europe/Berlin", payload={"shop": 7})
    await api.post("/v1/timers/by-name/report/pause", {"reason": "the shop is closed"})

    paused = (await browser.get("/timers/by-name/report")).main
    assert "PAUSED the timer was paused at" in paused
    assert "(the shop is closed)" in paused
    assert "at 08:00 on Monday, Europe/Berlin 0 8 * * MON" in paused
    assert "Next occurrences" not in paused
    assert '{"shop": 7}' in paused

    await api.post("/v1/timers/by-name/report/resume")
    resumed = (await browser.get("/timers/by-name/report?at=")).main  # The URL differs from the URL of the cached page.
    assert resumed.count("08:00:00+0") >= 5, "five Mondays in local time"
    before = await browser.get("/timers/by-name/report?at=2020-01-01T00:00:00Z")
    assert "NOT_YET_MADE" in before.main
    planned = await browser.get("/timers/by-name/report?at=2200-01-01T00:00:00Z")
    assert "PLANNED" in planned.main, "computed in a thread, because it counts the occurrences of many years"
    wrong = await browser.get("/timers/by-name/report?at=then")
    assert (wrong.status, "at 'then'" in wrong.main) == (422, True)


async def test_a_reason_that_is_too_long_is_refused_and_not_cut(api: Api, browser: Browser) -> None:
    page = f"/timers/{await made(api, due_date='2030-01-31T08:00:00Z')}"

    refused = await browser.submit(f"{page}/pause", {"reason": "x" * 1_001})

    # A browser cuts a text without a message if the input has a maximum length.
    assert "maxlength" not in (await browser.get(page)).text
    assert (refused.status, "at most 1000 characters" in refused.main) == (422, True)


async def test_the_verbs_of_a_timer_change_the_timer_and_report_the_change(
    dsn: str, api: Api, browser: Browser
) -> None:
    key = await made(api, due_date="2030-01-31T08:00:00Z")
    page = f"/timers/{key}"

    async def done(verb: str, **fields: object) -> str:
        return (await browser.follow(await browser.submit(f"{page}/{verb}", fields))).text

    assert f"timer {key}: PAUSED" in await done("pause", reason="strike")
    assert f"timer {key}: PENDING" in await done("resume")
    assert f"timer {key}: RESCHEDULED, due 2030-01-31 09:00:00.000Z" in await done("move", shift="PT1H")
    assert f"timer {key}: due now" in await done("run")
    assert f"timer {key}: CANCELED" in await done("cancel", reason="order was paid")
    assert await recorded(dsn) == ["PAUSED", "RESUMED", "RESCHEDULED", "RESCHEDULED", "CANCELED"]
    reasons = await query(
        dsn, "select detail ->> 'reason' as reason from shardclock.command_log where detail ? 'reason'"
    )
    assert [row["reason"] for row in reasons] == ["strike", "order was paid"]
    ended = await browser.submit(f"{page}/pause")
    assert ended.status == 409
    assert f"timer {key} is CANCELED" in ended.main
    assert "/cancel" not in (await browser.get(page)).text


async def test_all_timers_that_match_are_counted_first_and_changed_then(dsn: str, api: Api, browser: Browser) -> None:
    for number in range(3):
        await made(api, name=f"order-{number}")
    await made(api, name="other")
    chosen = {"name_prefix": "order-", "reason": "strike"}

    counted = await browser.submit("/timers/bulk/cancel?dry_run=true", chosen)
    assert "3 pending or paused timers match. Nothing is cancelled yet." in counted.main
    assert "Refresh" not in counted.main, "the answer to a form has no address"
    (token,) = re.findall(r'name="token" value="([^"]*)"', counted.text)
    assert await recorded(dsn) == []
    done = await browser.submit("/timers/bulk/cancel", {**chosen, "token": token})

    assert "has begun" in (await browser.follow(done)).text
    assert await ends_of(dsn) == [("cancel", "DONE", 3, 3)]
    shown = (await browser.follow(done)).main
    assert "DONE cancel 3 3 of 3" in shown
    assert "Found 3, counted before: 3 Changed 3 Name prefix order- Reason strike" in shown
    assert await recorded(dsn) == ["CANCELED"] * 3
    acts = await query(dsn, "select interface, verb, outcome, parameters -> 'matched' from shardclock.audit")
    assert [tuple(row) for row in acts] == [("console", "cancel", "done", "3")]
    twice = await browser.submit("/timers/bulk/cancel", {**chosen, "token": token})
    assert "no row matches any more" in (await browser.follow(twice)).text
    again = await browser.submit("/timers/bulk/cancel", chosen)
    assert (again.status, "token is missing" in again.main) == (422, True)


async def test_only_the_selected_timers_are_changed(dsn: str, api: Api, browser: Browser) -> None:
    keys = [await made(api, name=f"order-{number}") for number in range(4)]
    listed = await browser.get("/timers?name_prefix=order-")
    assert re.findall(r'name="timer_keys" value="([^"]*)" aria-label="Select (order-.)"', listed.text) == [
        (str(key), f"order-{number}") for number, key in enumerate(keys)
    ]
    selected = {"name_prefix": "order-", "state": "pending", "timer_keys": keys[:2]}

    counted = await browser.submit("/timers/bulk/pause?dry_run=true", selected)
    assert "2 pending timers match. Nothing is paused yet." in counted.main
    assert "Selected timers 2" in counted.main
    assert re.findall(r'name="timer_keys" value="([^"]*)"', counted.text) == [str(key) for key in keys[:2]]
    (token,) = re.findall(r'name="token" value="([^"]*)"', counted.text)
    other = await browser.submit("/timers/bulk/pause", {**selected, "timer_keys": keys[2:], "token": token})
    assert (other.status, "belongs to another request" in other.main) == (422, True)
    done = await browser.submit("/timers/bulk/pause", {**selected, "token": token})

    assert await ends_of(dsn) == [("pause", "DONE", 2, 2)]
    assert "Timer keys" in (await browser.follow(done)).main
    paused = await query(dsn, "select name from shardclock.timers where paused_due_date is not null order by name")
    assert [row["name"] for row in paused] == ["order-0", "order-1"]


async def test_a_long_count_ends_early_and_the_operation_has_the_exact_number(
    dsn: str, api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.gateway.routes.bulk.COUNTED_MAX", 2)
    for number in range(3):
        await made(api, name=f"order-{number}")
    await api.post("/v1/timers/by-name/order-2/pause")

    counted = await browser.submit("/timers/bulk/cancel?dry_run=true", {})
    assert "2 or more pending or paused timers match. Nothing is cancelled yet." in counted.main
    assert "Cancel 2 or more timers" in counted.main
    (token,) = re.findall(r'name="token" value="([^"]*)"', counted.text)
    done = await browser.submit("/timers/bulk/cancel", {"token": token})

    assert await ends_of(dsn) == [("cancel", "DONE", 3, 3)]
    shown = (await browser.follow(done)).main
    assert "Found 3 Changed 3" in shown


async def test_a_change_of_all_that_match_keeps_to_the_state_of_the_list(dsn: str, api: Api, browser: Browser) -> None:
    for number in range(3):
        await made(api, name=f"order-{number}")
    await api.post("/v1/timers/by-name/order-1/pause")

    listed = await browser.get("/timers?state=paused&name_prefix=order-")
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', listed.text))
    assert fields == {"state": "paused", "name_prefix": "order-"}
    assert ("/bulk/resume" in listed.text, "/bulk/pause" in listed.text) == (True, False)
    counted = await browser.submit("/timers/bulk/cancel?dry_run=true", fields)
    assert "1 paused timer matches" in counted.main
    (token,) = re.findall(r'name="token" value="([^"]*)"', counted.text)
    other = await browser.submit("/timers/bulk/cancel", {**fields, "state": "pending", "token": token})
    assert (other.status, "belongs to another request" in other.main) == (422, True)
    await browser.submit("/timers/bulk/cancel", {**fields, "token": token})
    assert await ends_of(dsn) == [("cancel", "DONE", 1, 1)]

    assert [row["name"] for row in await query(dsn, "select name from shardclock.timers order by name")] == [
        "order-0", "order-2",
    ]  # fmt: skip
    assert "/bulk/pause" in (await browser.get("/timers?name_prefix=order-")).text


async def test_each_text_of_a_tenant_is_escaped(dsn: str, api: Api, browser: Browser) -> None:
    await made(api, name=XSS, payload={"x": XSS})
    await api.post(f"/v1/timers/by-name/{quote(XSS, safe='')}/pause", {"reason": XSS})

    (await browser.get("/timers?state=paused")).assert_escapes()
    one = await browser.get(f"/timers/by-name/{quote(XSS, safe='')}")
    one.assert_escapes()
    assert one.main.count(XSS) >= 3, "title, name and reason"
    (await browser.get(f"/timers?name_prefix={quote(XSS)}&state=paused")).assert_escapes()
    counted = await browser.submit("/timers/bulk/resume?dry_run=true", {"name_prefix": XSS})
    counted.assert_escapes()


async def test_a_timer_of_any_name_has_a_page_and_verbs(dsn: str, api: Api, browser: Browser) -> None:
    for number, name in enumerate(NAMES, start=1):
        await made(api, name=name, schedule="R/P1D")
        listed = await browser.get(f"/timers?name_prefix={quote(name, safe='')}")
        (link,) = re.findall(r'href="/console(/timers/by-name/[^"]*)"', listed.text)
        assert name in (await browser.get(link)).main
        done = await browser.submit(f"{link}/pause")
        assert name in (await browser.follow(done)).main
        assert await recorded(dsn) == ["PAUSED"] * number


async def test_a_name_changes_neither_the_order_nor_the_links_of_its_page(api: Api, browser: Browser) -> None:
    turned = "refund \u202e0001 RUE"
    await made(api, name=turned)
    await api.post(f"/v1/timers/by-name/{quote(turned)}/cancel")
    keys_of_dots = [await made(api, name=name, schedule="R/P1D") for name in (".", "..")]

    ended = (await browser.get("/timers?state=canceled")).text
    (path,) = re.findall(r'href="/console(/timers/[0-9]+)"', ended)
    one = await browser.get(path)
    assert f"<h1><bdi>Timer {turned}</bdi> <span" in one.text
    facts = one.main.partition("Facts")[2]
    assert ("Was due" in facts, " in 59 min" in facts, " in 1 h" in facts) == (True, False, False)
    for page in ("/timers", "/schedules"):
        listed = (await browser.get(page)).text
        for key in keys_of_dots:
            assert f'href="/console/timers/{key}"' in listed
    dotted = await browser.get(f"/timers/{keys_of_dots[0]}")
    assert (dotted.status, "/timers/by-name/" in dotted.text) == (200, False)


async def test_a_read_only_key_gets_no_buttons_and_its_changes_are_refused(
    dsn: str, owner: Session, locked: Api, locked_browser: Browser
) -> None:
    writer = locked.with_headers(Authorization=f"Bearer {await key_of(owner, 'acme', 'read', 'write')}")
    key = await made(writer, name="order-1")
    await locked_browser.sign_in(await key_of(owner, "acme", "read"))

    for page in ("/timers", f"/timers/{key}", "/timers/by-name/order-1", "/schedules"):
        shown = await locked_browser.get(page)
        assert (shown.status, [it for it in shown.actions if "/timers" in it]) == (200, [])
    for verb in ("cancel", "pause", "resume", "run", "move", "operate"):
        assert (await locked_browser.submit(f"/timers/{key}/{verb}", {})).status == 403
    for path in ("/timers/bulk/cancel?dry_run=true", "/timers/new", "/schedules/new"):
        assert (await locked_browser.submit(path, {})).status == 403
    assert await value(dsn, "select count(*) from shardclock.command_log") == 0


async def test_the_timer_of_another_tenant_is_unknown(owner: Session, locked: Api, locked_browser: Browser) -> None:
    writer = locked.with_headers(Authorization=f"Bearer {await key_of(owner, 'acme', 'read', 'write')}")
    key = await made(writer, name="order-1")
    await locked_browser.sign_in(await key_of(owner, "eve", "read", "write"))

    assert "order-1" not in (await locked_browser.get("/timers")).main
    for page in (f"/timers/{key}", "/timers/by-name/order-1", f"/timers/{2**63}"):
        assert (await locked_browser.get(page)).status == 404
        assert (await locked_browser.submit(f"{page}/cancel")).status == 404


async def test_the_list_has_the_number_of_matching_timers_up_to_a_limit(
    dsn: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_timers(dsn, 60, "now() + interval '1 hour'", name="'order-' || i")
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'report'")
    first = await browser.get("/timers")
    assert " 61 timers match. " in first.main
    assert " 61 timers match. " in (await browser.get(next_page(first))).main
    assert " 1 timer matches. " in (await browser.get("/timers?name_prefix=rep")).main
    assert "match. " not in (await browser.get("/timers?name_contains=order")).main, "a count would read all names"

    monkeypatch.setattr(timers, "MATCHES_MAX", 60)

    assert "More than 60 timers match. " in (await browser.get("/timers?target=log")).main
    assert " 60 timers match. " in (await browser.get("/timers?name_prefix=order-")).main
