"""Test the filled pages of deliveries, endpoints, jobs and the audit in a real browser, and a verb without scripts."""

from __future__ import annotations

import json

import pytest

from tests.support.chromium import chromium, watched
from tests.support.console import XSS
from tests.support.deliveries import HANDLER, add_deliveries, bury, declare
from tests.support.factories import query, value
from tests.support.gateways import Api
from tests.support.job_runs import declare as declare_jobs
from tests.support.jobs import job_spec
from tests.support.waiting import eventually

FAILURES = json.dumps([{"at": "2027-01-31T08:00:00+00:00", "attempt": 1, "reason": XSS, "worker": "f00d"}])
FILLED = (
    "/deliveries", "/deliveries/2", "/deliveries/retry", "/dead-letters", "/dead-letters/1", "/dead-letters/redrive",
    "/dead-letters/discard", "/endpoints", "/endpoints/billing", "/endpoints/billing/attempts", "/jobs",
    "/jobs/refresh", "/jobs/refresh/runs/1.1", "/audit", "/operations", "/operations/1",
)  # fmt: skip
RUNNING = """
    insert into shardclock.operations (
        request_id, due_at, matched, changed, by_operator, tenant_id, verb, filter, change, interface, key_name, error
    )
    values (
        gen_random_uuid(), now() + interval '1 day', 9, 3, true, 'default', 'cancel',
        jsonb_build_object('name_prefix', $1::text), jsonb_build_object('reason', $1::text), 'console', $1, $1
    )
"""
RUN = """
    insert into shardclock.job_runs (
        timer_key, claims, job, outcome, attempt, scheduled_at, started_at, running_at, reason, log, progress
    )
    select i, 1, 'refresh', 'FAILED', 1, now(), now(), now(), $1, $1, 0.5
    from generate_series(1, 9) i
"""


@pytest.fixture
async def filled(dsn: str, api: Api) -> Api:
    """Fill each list with rows, with texts that a tenant chose."""
    await declare(dsn, HANDLER)
    await declare_jobs(dsn, job_spec(every_s=3600.0))
    await query(dsn, RUN, XSS)
    await api.post("/v1/endpoints", {"name": "billing", "url": "https://billing.example.com/hooks"})
    columns = {"failed_attempts": "1", "name": f"$${XSS}$$", "failures": f"$${FAILURES}$$::jsonb"}
    at = {"next_attempt_at": "now() + interval '1 h'"}
    await add_deliveries(dsn, 3, "webhook:billing", tenant_id="'default'", **columns, **at)
    await bury(dsn, 3)
    changed = "update shardclock.dead_letters set tenant_id = 'default', name = $1, reason = $1, failures = $2::jsonb"
    await query(dsn, changed, XSS, FAILURES)
    await query(dsn, RUNNING, XSS)
    return api


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", [0, 1])
async def test_filled_pages_have_no_error_on_a_small_screen(filled: Api, first: int) -> None:
    async with chromium() as browser, watched(browser, viewport={"width": 320, "height": 640}) as opened:
        for path in FILLED[first::2]:
            await opened.open(f"{filled.url}/console{path}")
            for summary in await opened.page.locator("details.verb > summary").all():
                await summary.click()
            await opened.assert_sound()


@pytest.mark.slow
async def test_dead_letters_are_discarded_without_javascript(dsn: str, filled: Api) -> None:
    async def discarded() -> bool:
        done = "select state = 'DONE' from shardclock.operations where verb = 'dead-letters discard'"
        return bool(await value(dsn, done))

    async with chromium() as browser, watched(browser, java_script_enabled=False) as opened:
        page = opened.page
        await opened.open(f"{filled.url}/console/dead-letters")
        await page.get_by_role("link", name="Discard all that match").click()
        await page.get_by_label("Reason").fill("sent by hand")
        await page.get_by_role("button", name="Discard 3").click()
        assert "operation 2 has begun" in await page.get_by_role("status").inner_text()
        await eventually(discarded)
        await page.get_by_role("link", name="Refresh").click()
        assert "3 of 3" in await page.get_by_role("main").inner_text()

    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 0


@pytest.mark.exhaustive
async def test_events_for_operators_are_chosen_in_a_form(dsn: str, filled: Api) -> None:
    async with chromium() as browser, watched(browser) as opened:
        page = opened.page
        await opened.open(f"{filled.url}/console/endpoints/billing")
        await page.locator("summary", has_text="Choose the events").click()
        await page.get_by_label("job.failed", exact=True).check()
        await page.get_by_label("delivery.dead", exact=True).check()
        await page.get_by_label("Failed runs in a row until the first job.failed").fill("4")
        await page.get_by_label("Only the text").check()
        await page.get_by_role("button", name="Choose the events").click()

        await page.get_by_text("gets delivery.dead, job.failed").or_(page.get_by_text("gets job.failed")).wait_for()
        await page.locator("summary", has_text="Choose the events").click()
        assert await page.get_by_label("delivery.dead", exact=True).is_checked()
        assert not await page.get_by_label("endpoint.disabled", exact=True).is_checked()
        await opened.assert_sound()

    text = "select kinds, failures_min, text_only from shardclock.event_subscriptions"
    assert [tuple(row) for row in await query(dsn, text)] == [(["delivery.dead", "job.failed"], 4, True)]
