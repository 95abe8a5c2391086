"""Test the pages of endpoints: what they show, each verb, secrets, and the rights of readers and tenants."""

from __future__ import annotations

import json
import re
import time
from asyncio import StreamReader, StreamWriter

from shardclock_server.gateway.console.pages.listing import ROWS
from shardclock_server.sql.endpoints.attempts import EndedAttempt, keep_attempts
from shardclock_server.sql.endpoints.endpoints import EndpointName
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser, browsing
from tests.support.console_forms import console_acts, next_page, sign_in_as
from tests.support.deliveries import add_deliveries
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api, serving
from tests.support.receivers import answering, receiving
from tests.support.sql_client import session

URL = "https://billing.example.com/hooks"
SECRETS = "select secrets from shardclock.endpoints where name = 'billing'"
VERBS = ("change", "disable", "enable", "remove", "rotate", "end-rotation", "test")


async def test_an_endpoint_is_added_and_its_secret_is_shown_once(dsn: str, browser: Browser) -> None:
    added = await browser.submit("/endpoints", {"name": "billing", "url": URL})

    (secret,) = await value(dsn, SECRETS)
    assert (added.status, added.headers["Cache-Control"], secret in added.main) == (200, "no-store", True)
    for shown in (await browser.get("/endpoints"), await browser.get("/endpoints/billing")):
        assert (URL in shown.main, secret[10:20] in shown.text) == (True, False)
    assert "shared secret (v1)" in (await browser.get("/endpoints/billing")).main
    again = await browser.submit("/endpoints", {"name": "billing", "url": URL})
    assert (again.status, "'billing'" in again.main) == (409, True)
    assert (await browser.submit("/endpoints", {"name": "b", "url": "http://b"})).status == 422
    (done, *refused) = await console_acts(dsn)
    assert done == ("endpoints add", {"name": "billing", "url": "…"}, "done")
    assert [outcome for _, _, outcome in refused] == ["not done", "not done"]


async def test_secrets_are_rotated_and_a_rotation_is_ended(dsn: str, api: Api, browser: Browser) -> None:
    await api.post("/v1/endpoints", {"name": "billing", "url": URL, "headers": {"x-shop": "token-7"}})
    before = await value(dsn, SECRETS)

    rotated = await browser.submit("/endpoints/billing/rotate", {"asymmetric": "true"})
    secrets = await value(dsn, SECRETS)
    assert (len(secrets), secrets[1:]) == (2, before)
    assert "whpk_" in rotated.main
    assert "whsk_" not in rotated.text
    shown = await browser.get("/endpoints/billing")
    assert "key pair (v1a), shared secret (v1): 2 secrets in rotation" in shown.main
    assert ("x-shop" in shown.main, "token-7" in shown.text) == (True, False)

    ended = await browser.follow(await browser.submit("/endpoints/billing/end-rotation"))
    assert "signs with its newest secret alone" in ended.text
    assert await value(dsn, SECRETS) == secrets[:1]


async def test_an_endpoint_is_changed_disabled_enabled_and_removed(dsn: str, api: Api, browser: Browser) -> None:
    await api.post("/v1/endpoints", {"name": "billing", "url": URL})
    await api.post("/v1/timers", {"delay": "PT1H", "target": "webhook:billing"})

    fields = {"concurrency": 7, "rate_per_s": ""}
    changed = await browser.follow(await browser.submit("/endpoints/billing/change", fields))
    assert "has concurrency 7" in changed.text
    assert json.loads(await value(dsn, "select policy::text from shardclock.endpoints")) == {"concurrency": 7}
    assert (await browser.submit("/endpoints/billing/change", {"concurrency": 0})).status == 422
    reason = {"reason": "moves"}
    named = await browser.submit("/endpoints/billing/disable", reason)
    assert (named.status, "1 pending timer" in named.main, "even if timers name it" in named.main) == (409, True, True)
    disabled = await browser.follow(await browser.submit("/endpoints/billing/disable", reason | {"force": "true"}))
    assert ("DISABLED" in disabled.main, "moves" in disabled.main) == (True, True)
    assert "DISABLED" in (await browser.get("/endpoints")).main
    await browser.submit("/endpoints/billing/enable")
    assert await value(dsn, "select disabled_at is null from shardclock.endpoints")
    removed = await browser.follow(await browser.submit("/endpoints/billing/remove", {"force": "true"}))

    assert "endpoint webhook:billing is removed" in removed.text
    assert (await browser.get("/endpoints/billing")).status == 404
    verbs = [(verb, outcome) for verb, _, outcome in await console_acts(dsn)]
    assert verbs == [
        ("endpoints change", "done"), ("endpoints change", "not done"), ("endpoints disable", "not done"),
        ("endpoints disable", "done"), ("endpoints enable", "done"), ("endpoints remove", "done"),
    ]  # fmt: skip


async def test_failing_deliveries_are_shown_with_the_last_error_escaped(dsn: str, api: Api, browser: Browser) -> None:
    await api.post("/v1/endpoints", {"name": "billing", "url": f"{URL}?a=<b>"})
    failures = json.dumps([{"at": "2027-01-31T08:00:00+00:00", "attempt": 1, "reason": XSS}])
    columns = {"failed_attempts": "1", "name": f"$${XSS}$$", "failures": f"$${failures}$$::jsonb"}
    await add_deliveries(dsn, 12, "webhook:billing", tenant_id="'default'", **columns)

    shown = await browser.get("/endpoints/billing")
    shown.assert_escapes()
    failing = shown.text.partition("Failing deliveries")[2]
    assert ("FAILING" in shown.main, failing.count('href="/console/deliveries/')) == (True, 10)
    assert "the oldest fired or redriven" in shown.main
    assert "Oldest failing delivery fired or redriven" in (await browser.get("/endpoints")).main
    assert "FAILING" in (await browser.get("/endpoints")).main
    await query(dsn, "update shardclock.endpoints set disabled_at = now(), disabled_why = $1", XSS)
    (await browser.get("/endpoints/billing")).assert_escapes()


async def test_the_last_attempts_are_shown_with_the_answers_escaped(dsn: str, api: Api, browser: Browser) -> None:
    for name in ("billing", "crm"):
        await api.post("/v1/endpoints", {"name": name, "url": URL})
    assert "Accepted no attempt has ended yet" in (await browser.get("/endpoints/crm")).main
    key = EndpointName("default", "billing")
    async with session(dsn, "shard") as worker:
        failed = EndedAttempt(key, 7, 2, time.monotonic(), 503, 0.12, f"answered 503: {XSS}", f"{XSS} busy".encode())
        await keep_attempts(worker, [failed, EndedAttempt(key, 8, 1, time.monotonic(), 204, 0.01, None, b"")])
    shown = await browser.get("/endpoints/billing")
    bodies = await browser.get("/endpoints/billing/attempts")

    for page in (shown, bodies):
        page.assert_escapes()
        assert ("120 ms" in page.main, '/console/deliveries/8"' in page.text) == (True, True)
    assert ("busy" in shown.main, "busy" in bodies.main, "answered 204" in bodies.main) == (False, True, True)
    assert (await browser.get("/endpoints/none/attempts")).status == 404
    assert "Accepted 1 of 2 last attempts" in shown.main
    listed = (await browser.get("/endpoints")).main
    rates = re.findall(r"(billing|crm) https://\S+ ENABLED 0 0 (\d of \d|–)", listed)
    assert rates == [("billing", "1 of 2"), ("crm", "–")]


async def test_endpoints_are_listed_page_by_page(dsn: str, browser: Browser) -> None:
    text = """insert into shardclock.endpoints (tenant_id, name, url, secrets)
        select 'default', 'e' || i, 'https://e', array ['whsec_x'] from generate_series(101, 101 + $1) i"""
    await query(dsn, text, ROWS)

    first = await browser.get("/endpoints")
    rest = await browser.get(next_page(first))
    assert (first.text.count("<tr>"), rest.text.count("<tr>")) == (ROWS + 1, 2)
    assert f"e{101 + ROWS}" in rest.main


async def test_an_endpoint_shows_its_next_timers_and_links_to_all_of_them(dsn: str, api: Api, browser: Browser) -> None:
    for name in ("billing", "unused"):
        await api.post("/v1/endpoints", {"name": name, "url": URL})
    due = "now() + (10 - i) * interval '1 hour'"
    await add_timers(dsn, 7, due, target="'webhook:billing'", name="'invoice-' || i")
    await query(
        dsn,
        'insert into shardclock.endpoints select (jsonb_populate_record(e, \'{"tenant_id": "acme"}\')).*'
        " from shardclock.endpoints e",
    )
    await add_timers(dsn, 1, "now()", target="'webhook:billing'", name="'hidden'", tenant_id="'acme'")
    await add_timers(dsn, 1, "now()", target="'log'", name="'unrelated'")

    shown = await browser.get("/endpoints/billing")

    coming = shown.text.partition("The next timers")[2].partition("<h2>")[0]
    assert re.findall(r">(\S+)</a>\s*</th>", coming) == [f"invoice-{i}" for i in (7, 6, 5, 4, 3)]
    (every,) = re.findall(r'href="/console(/timers\?[^"]*)">Show all', coming)
    assert "7 timers match." in (await browser.get(every)).main
    assert "No pending timer names this endpoint." in (await browser.get("/endpoints/unused")).main


async def test_a_test_webhook_is_sent_and_its_answer_is_the_message(dsn: str) -> None:
    async with (
        receiving(answering("204 No Content")) as receiver,
        serving(dsn, webhook_http=True, webhook_allow="127.0.0.0/8") as api,
        browsing(api) as browser,
    ):
        url = f"http://127.0.0.1:{receiver.port}/hook"
        assert (await browser.submit("/endpoints", {"name": "billing", "url": url})).status == 200
        tried = await browser.follow(await browser.submit("/endpoints/billing/test"))

    assert "the test was accepted: it answered 204" in tried.text
    assert len(receiver.requests) == 1


async def test_test_sends_are_shown_among_the_attempts_and_marked(dsn: str) -> None:
    answers = [answering("503 Service Unavailable", body=b"closed"), answering("204 No Content")]

    async def in_turn(reader: StreamReader, writer: StreamWriter) -> None:
        await answers.pop(0)(reader, writer)

    async with (
        receiving(in_turn) as receiver,
        serving(dsn, webhook_http=True, webhook_allow="127.0.0.0/8") as api,
        browsing(api) as browser,
    ):
        url = f"http://127.0.0.1:{receiver.port}/hook"
        await browser.submit("/endpoints", {"name": "billing", "url": url})
        await browser.submit("/endpoints/billing/test")
        await browser.submit("/endpoints/billing/subscribe", {"kinds": "delivery.dead"})
        await browser.submit("/endpoints/billing/test-event")
        shown = (await browser.get("/endpoints/billing")).main
        bodies = (await browser.get("/endpoints/billing/attempts")).main
        listed = (await api.get("/v1/endpoints/billing/attempts")).json["attempts"]

    moment = r"\d{4}-\S+ \S+ (now|[\d.]+ \w+ ago)"
    assert re.search(
        rf"Last attempts and test sends .* {moment} test send – 204 \d+ ms {moment} test send – 503 \d+ ms ", shown
    ), shown
    assert "Accepted no attempt has ended yet" in shown
    assert re.search(r"Test send: answered 204, .* Test send: answered 503 .* closed", bodies), bodies
    assert [(it["timer_key"], it["attempt"], it["status"]) for it in listed] == [(None, None, 204), (None, None, 503)]


async def test_a_read_only_key_gets_no_buttons_and_another_tenant_gets_no_rows(
    dsn: str, locked: Api, locked_browser: Browser, owner: Session
) -> None:
    await sign_in_as(locked_browser, owner, "operate")
    assert (await locked_browser.submit("/endpoints", {"name": "billing", "url": URL})).status == 200
    await sign_in_as(locked_browser, owner, "write")
    for path in ("/endpoints", "/endpoints/billing"):
        shown = await locked_browser.get(path)
        assert (shown.status, shown.actions) == (200, []), path
        assert ("https://billing.example.com/…" in shown.main, URL in shown.text) == (True, False), path
    for path in ("", *(f"/billing/{verb}" for verb in VERBS)):
        assert (await locked_browser.submit(f"/endpoints{path}", {"name": "b", "url": URL})).status == 403, path

    await sign_in_as(locked_browser, owner, "operate", tenant="acme")
    assert "billing" not in (await locked_browser.get("/endpoints")).main
    assert [(await locked_browser.get(f"/endpoints/billing{it}")).status for it in ("", "/attempts")] == [404, 404]
    for verb in VERBS:
        fields = {"concurrency": 2} if verb == "change" else {}
        assert (await locked_browser.submit(f"/endpoints/billing/{verb}", fields)).status == 404, verb
    left = await query(
        dsn, "select policy::text as policy, disabled_at, cardinality(secrets) from shardclock.endpoints"
    )
    assert [tuple(row) for row in left] == [("{}", None, 1)]
