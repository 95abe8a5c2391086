"""Test the console in a real browser: the policy, assistive technology, small screens, the keyboard, live updates."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Route

from shardclock_server.gateway.console import live
from shardclock_server.gateway.console.routes import PATHS
from shardclock_server.gateway.waits import changes
from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support import job_runs
from tests.support.chromium import chromium, watched
from tests.support.deliveries import declare
from tests.support.factories import add_holder, add_timers, query
from tests.support.gateways import Api
from tests.support.jobs import job_spec

PLAIN = sorted(path for path in PATHS if "{" not in path)
SIZES = {"wide": (1_280, 900), "small": (320, 640)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "theme", "first"),
    [
        ("wide", "light", 0),
        ("small", "dark", 1),
        pytest.param("wide", "light", 1, marks=pytest.mark.exhaustive),
        pytest.param("small", "dark", 0, marks=pytest.mark.exhaustive),
    ],
)
async def test_each_page_has_no_error_in_a_browser(dsn: str, api: Api, size: str, theme: str, first: int) -> None:
    await add_timers(dsn, 3, "now() + interval '10 minutes'", name="'a-rather-long-name-of-a-timer-' || i")
    width, height = SIZES[size]
    view = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
    async with chromium() as browser, watched(browser, **view) as opened:
        for path in [*PLAIN, "/account", "/timers?state=nonsense", "/nowhere"][first::2]:
            await opened.open(f"{api.url}/console{path.rstrip('/')}")
            opened.errors = [
                it for it in opened.errors if "status of 4" not in it
            ]  # the browser reports our 404 and 422
            await opened.assert_sound()


@pytest.mark.exhaustive
async def test_a_person_signs_in_and_out_without_javascript(locked: Api, owner: Session) -> None:
    key = await keys.make(owner, WantedKey(None, "night", ("admin",)))
    async with chromium() as browser, watched(browser, java_script_enabled=False) as opened:
        page = opened.page
        await opened.open(f"{locked.url}/console/timers?state=paused")
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Sign in").click()
        assert page.url == f"{locked.url}/console/timers?state=paused"

        await page.get_by_label("Name begins with").fill('a"b')
        await page.get_by_role("button", name="Find").click()
        assert await page.get_by_label("Name begins with").input_value() == 'a"b'
        assert await page.get_by_label("State").input_value() == "paused"

        await page.get_by_role("link", name="default").click()
        await page.get_by_label("Show the pages of tenant").fill("ada")
        await page.get_by_role("button", name="Choose").first.click()
        await page.get_by_role("link", name="ada").click()
        await page.get_by_role("button", name="Sign out").click()
        assert page.url == f"{locked.url}/console/sign-in"
        await opened.open(f"{locked.url}/console/timers")
        assert await page.get_by_label("API key").count() == 1


@pytest.mark.slow
async def test_an_open_page_follows_changes_and_keeps_the_reader_s_input(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((changes, "POLL_S"), (changes, "REFRESH_S"), (live, "EVENT_S")):
        monkeypatch.setattr(module, name, 0.2)
    async with chromium() as browser, watched(browser) as opened:
        page = opened.page
        await opened.open(f"{api.url}/console/timers")
        await page.get_by_label("Target").fill("half-typed")

        await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H', name => 'fresh')")

        await page.get_by_role("link", name="fresh", exact=True).wait_for()
        assert await page.get_by_label("Target").input_value() == "half-typed"

        await page.get_by_label("Select fresh").check()
        async with page.expect_response(lambda answer: answer.url.endswith("/timers")) as refreshed:
            await query(dsn, "select shardclock.schedule_timer(delay => 'PT2S', name => 'sooner')")
        await (await refreshed.value).finished()
        await page.evaluate("new Promise(requestAnimationFrame)")
        assert await page.get_by_label("Select fresh").is_checked()
        assert await page.get_by_role("link", name="sooner").count() == 0, "a table with selected rows stays"
        await page.get_by_label("Select fresh").uncheck()
        await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H', name => 'later')")
        await page.get_by_role("link", name="later").wait_for()

        await opened.open(f"{api.url}/console/jobs")
        await job_runs.declare(dsn, job_spec("nightly"))
        await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H')")
        await page.get_by_role("link", name="nightly").wait_for()
        assert opened.errors == []


@pytest.mark.exhaustive
async def test_a_page_whose_stream_was_refused_reports_this_and_connects_again(dsn: str, api: Api) -> None:
    await declare(dsn, "orders.expired")
    await add_timers(dsn, 1, "now() + interval '10 minutes'", name="'refund'", target="'orders.expired'")
    refusals = [429]

    async def refuse(route: Route) -> None:
        await (route.fulfill(status=refusals.pop()) if refusals else route.continue_())

    async with chromium() as browser, watched(browser, viewport={"width": 320, "height": 640}) as opened:
        page = opened.page
        await page.clock.install()
        await page.route("**/console/live", refuse)
        await opened.open(f"{api.url}/console/timers")
        await page.locator("#live.off", has_text="Not live").wait_for()
        await page.clock.fast_forward(20_000)
        await page.locator("#live:not(.off)", has_text=re.compile("^Live$")).wait_for()

        cell = page.get_by_role("cell", name="PENDING")
        target = (
            "it => { const r = document.createRange(); r.selectNodeContents(it); return r.getClientRects().length }"
        )
        assert await cell.locator("xpath=following-sibling::td[2]").evaluate(target) == 1, "a word is not broken"


@pytest.mark.slow
async def test_the_keepers_fit_the_page_and_no_line_breaks_within_an_id(dsn: str, api: Api) -> None:
    for number in range(3):
        await add_holder(dsn, 0x7FED_CBA9_8765_4000 + number)
    pod = "shardclock-ray-cluster-worker-small-group-7d9f8b6c5d-abcde.timers.svc.cluster.local"
    await query(dsn, "update shardclock.holders set host = $1, cluster_id = $2", pod, "timers-of-the-shop-in-the-west")
    async with chromium() as browser, watched(browser, viewport={"width": 1_280, "height": 900}) as opened:
        await opened.open(f"{api.url}/console/cluster")
        table = opened.page.locator(".wide", has_text="Last sign of life").first
        assert await table.evaluate("it => it.scrollWidth - it.clientWidth") == 0
        ids = table.locator("td .id")
        assert await ids.count() == 6
        assert await ids.evaluate_all("all => all.map(it => it.getClientRects().length)") == [1] * 6
        await opened.assert_sound()


@pytest.mark.exhaustive
async def test_the_keyboard_reaches_the_content_the_menu_and_a_form(api: Api) -> None:
    async with chromium() as browser, watched(browser) as opened:
        page = opened.page
        await opened.open(f"{api.url}/console/account")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        reached = []
        for _ in range(12):
            await page.keyboard.press("Tab")
            reached.append(
                await page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()")
            )
            if reached[-1] == "theme":
                break
        assert reached[-1] == "theme", reached
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("html[data-theme=dark]")
