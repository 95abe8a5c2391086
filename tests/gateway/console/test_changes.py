"""Test that each change in the console is recorded, is refused with an unknown query, and is visible immediately."""

from __future__ import annotations

from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser, browsing
from tests.support.console_forms import console_acts, sign_in_as
from tests.support.deliveries import let_die
from tests.support.factories import value
from tests.support.gateways import Api, serving

ENDPOINT = {"name": "hook", "url": "https://billing.example.com/hooks"}


async def test_a_change_with_a_query_that_its_route_does_not_have_is_refused(dsn: str, browser: Browser) -> None:
    await browser.submit("/endpoints", ENDPOINT)
    await let_die(dsn, 2)
    for asked in ("dry_run=true", "name=innocent", "dry_run=1&name=innocent", "reason=x"):
        for path in ("/endpoints/hook/disable", "/endpoints/hook/remove", "/cluster/hold", "/dead-letters/discard"):
            shown = await browser.submit(f"{path}?{asked}")
            assert shown.status == 422
            assert f"query parameter '{asked.partition('=')[0]}' is not known here" in shown.main
    assert await value(dsn, "select disabled_at is null from shardclock.endpoints")
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 2
    assert [verb for verb, _, _ in await console_acts(dsn)] == ["endpoints add"]


async def test_a_dry_run_is_possible_only_on_routes_that_declare_it(dsn: str, api: Api, browser: Browser) -> None:
    await api.post("/v1/timers", {"name": "order-1", "delay": "PT1H"})

    counted = await browser.submit("/timers/bulk/cancel?dry_run=true", {"name_prefix": "order-"})

    assert (counted.status, await console_acts(dsn)) == (200, [])


async def test_the_path_names_the_changed_row_in_the_audit(dsn: str, browser: Browser) -> None:
    await browser.submit("/endpoints", ENDPOINT)

    await browser.submit("/endpoints/hook/disable", {"name": "innocent"})
    await browser.submit("/endpoints/hook/disable", {"reason": "tests"})

    (_, refused, disabled) = await console_acts(dsn)
    assert refused == ("endpoints disable", {"name": "hook"}, "not done")
    assert disabled == ("endpoints disable", {"name": "hook", "reason": "tests"}, "done")


async def test_the_pages_after_a_change_show_it_to_each_viewer_of_the_tenant(
    owner: Session, locked: Api, locked_browser: Browser
) -> None:
    await sign_in_as(locked_browser, owner, "write")
    await locked_browser.submit("/timers/new", {"name": "order-1", "delay": "PT1H"})
    async with browsing(locked) as reader:
        await sign_in_as(reader, owner, "read")
        for pause in (True, False):
            before, after = ("PENDING", "PAUSED") if pause else ("PAUSED", "PENDING")
            for browser in (locked_browser, reader):
                assert before in (await browser.get("/timers/by-name/order-1")).main

            done = await locked_browser.submit(f"/timers/by-name/order-1/{'pause' if pause else 'resume'}")

            await locked_browser.follow(done)
            for browser in (locked_browser, reader):
                assert f"order-1 {after}" in (await browser.get("/timers/by-name/order-1")).main


async def test_an_address_that_is_not_a_url_is_refused_without_a_server_error(browser: Browser) -> None:
    for name, site, status in (("Origin", "", 403), ("Referer", "same-origin", 422)):
        shown = await browser.submit("/theme", {"theme": XSS * 5}, **{"Sec_Fetch_Site": site, name: "http://[::1"})
        assert (shown.status, 'href="/console">Back' in shown.text) == (status, True)
    assert (await browser.submit("/theme", {"to": "//[x"})).location == "/console"


async def test_a_wrong_address_keeps_the_menu_and_a_slash_leads_to_the_first_page(
    owner: Session, locked_browser: Browser
) -> None:
    assert 'aria-label="Pages"' not in (await locked_browser.get("/nowhere")).text
    await sign_in_as(locked_browser, owner, "read")

    for shown in (await locked_browser.get("/nowhere"), await locked_browser.submit("/timers")):
        assert (shown.status in (404, 405), 'href="/console/timers"' in shown.text) == (True, True)
        assert 'href="/console/audit"' not in shown.text, "a tenant's key can't open the audit"
    first = await locked_browser.get("/")
    assert (first.status, first.location) == (303, "/console")


async def test_a_key_travels_through_a_proxy_and_not_directly_by_plain_http(dsn: str, owner: Session) -> None:
    async with serving(dsn, needs_keys=True, gateway_url="https://timers.example") as api, browsing(api) as browser:
        for headers, status in (
            ({"Host": "10.0.0.5", "Origin": "http://10.0.0.5"}, 403),
            ({"Host": "timers.example", "Origin": "https://timers.example"}, 401),
            ({"Host": "upstream:8080", "Origin": "https://timers.example", "Sec_Fetch_Site": ""}, 401),
        ):
            shown = await browser.submit("/sign-in", {"key": f"sck_aaaaaaaa_{'A' * 43}"}, **headers)
            assert (headers, shown.status) == (headers, status)


async def test_a_refused_key_is_not_shown(locked_browser: Browser) -> None:
    for secret in ("sck_secret " + "x" * 300, "sck_secret\0"):
        shown = await locked_browser.sign_in(secret)
        assert shown.status in (401, 422)
        assert "sck_secret" not in shown.text
