"""Test the console during an outage: failing work, ended timers, late attempts, and a form of an old page."""

from __future__ import annotations

import html
import re

from tests.support.console import Browser
from tests.support.deliveries import HANDLER, add_deliveries, declare
from tests.support.factories import add_holder, add_timers, query
from tests.support.gateways import Api
from tests.support.job_runs import declare as declare_jobs
from tests.support.jobs import job_spec

FAILED = """
    update shardclock.jobs set consecutive_failures = 3, last_outcome = 'CRASHED', last_reason = 'exit code 137',
        last_finish = now() - interval '20 seconds'
    where name = $1
"""


async def made(api: Api, name: str, **fields: object) -> None:
    assert (await api.post("/v1/timers", {"name": name, **fields})).status == 201


async def test_a_job_that_failed_several_times_in_a_row_needs_a_person(dsn: str, browser: Browser) -> None:
    await declare_jobs(dsn, job_spec("backup", every_s=3600.0), job_spec("report", every_s=3600.0))
    await query(dsn, FAILED, "backup")
    await query(dsn, FAILED, "report")
    await query(dsn, "select shardclock.disable_job('report', 'by hand')")

    shown = (await browser.get("")).main

    assert "Failing job backup 3 runs in a row have failed" in shown
    assert "report" not in shown, "an operator has disabled it"


async def test_a_hold_is_shown_once_with_a_link_to_its_release(dsn: str, browser: Browser) -> None:
    await add_holder(dsn, 1)
    await browser.submit("/cluster/hold", {"reason": "billing is down"})

    shown, cluster = await browser.get(""), await browser.get("/cluster")

    assert "On hold an operator said: billing is down, since" in shown.main
    assert 'href="/console/cluster/release"' in shown.text
    for page in (shown, cluster):
        assert (page.main.count("billing is down"), "shardclock release" in page.main) == (1, False)


async def test_the_timers_of_an_outage_have_an_estimated_end(dsn: str, browser: Browser) -> None:
    await add_holder(dsn, 1)
    await add_timers(dsn, 125, "now() - interval '1 hour'")
    await browser.submit("/cluster/ramp", {"per_s": "1"})

    for path in ("", "/cluster"):
        assert re.search(
            r"1 a second, for about 2 min 5 s, until about .*\d\d:\d\d UTC", (await browser.get(path)).main
        )


async def test_an_empty_search_leads_to_the_timers_in_other_states(api: Api, browser: Browser) -> None:
    await made(api, "order-1", delay="PT0S")
    await made(api, "order-2", delay="PT1H")
    await api.post("/v1/timers/by-name/order-2/cancel")

    empty = await browser.get("/timers?name_prefix=order-2")
    assert "No pending timer matches. Search the paused or the ended timers" in empty.main
    (ended,) = re.findall(r'href="/console(/timers\?[^"]*state=ended[^"]*)"', empty.text)
    assert "order-2 CANCELED" in (await browser.get(html.unescape(ended))).main


async def test_paused_timers_show_the_time_of_their_pause_and_the_list_of_schedules_shows_paused_schedules(
    api: Api, browser: Browser
) -> None:
    for name in ("digest", "beat"):
        await made(api, name, schedule="R/PT1H")
    await api.post("/v1/timers/by-name/digest/pause", {"reason": "the ledger is migrated"})

    paused = (await browser.get("/timers?state=paused")).main
    assert re.search(r"Paused Until digest PAUSED .* log R/PT1H \d+-\S+ \S+ .{0,20}a resume", paused)
    schedules = await browser.get("/schedules")
    assert re.search(r"beat PENDING .* Paused .* digest PAUSED .* none since \d", schedules.main)
    assert 'href="/console/schedules?state=paused"' in schedules.text
    assert 'href="/console/timers?state=paused"' in (await browser.get("")).text
    assert "digest" not in (await browser.get("/schedules?target=nowhere")).main


async def test_an_attempt_that_is_late_leads_to_its_explanation(dsn: str, browser: Browser) -> None:
    await declare(dsn, HANDLER)
    await add_deliveries(dsn, 1, HANDLER, tenant_id="'default'", failed_attempts="2")
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() - interval '1 minute'")
    (row,) = await query(dsn, "select timer_key from shardclock.deliveries")

    shown = await browser.get(f"/deliveries/{row['timer_key']}")

    assert re.search(r"Next attempt \S+ \S+ 1 min .*ago : why not yet\?", shown.main)
    assert f'href="/console/timers/{row["timer_key"]}"' in shown.text


async def test_a_form_of_an_old_page_does_not_act_on_another_tenant(browser: Browser) -> None:
    page = await browser.get("/timers/new")
    (action,) = re.findall(r'<form method="post" action="/console(/timers/new[^"]*)"', page.text)
    await browser.submit("/tenant", {"to": "/", "tenant": "shop"})

    refused = await browser.submit(html.unescape(action), {"delay": "PT1H", "name": "late"})

    assert refused.status == 409
    assert "this page shows tenant 'default', and you have chosen tenant 'shop' since then" in refused.main
    for tenant in ("shop", "default"):
        await browser.submit("/tenant", {"to": "/", "tenant": tenant})
        assert "late" not in (await browser.get("/timers")).main
    assert (await browser.submit(html.unescape(action), {"delay": "PT1H", "name": "late"})).status == 303


async def test_a_handler_with_failing_deliveries_needs_a_person(dsn: str, browser: Browser) -> None:
    await declare(dsn, HANDLER, "calm")
    await add_deliveries(
        dsn, 3, target=HANDLER, tenant_id="'default'", failed_attempts="case when i < 3 then 2 else 0 end"
    )
    await add_deliveries(dsn, 3, target="calm", tenant_id="'default'")

    shown = (await browser.get("")).main

    assert f"Handler {HANDLER} 2 failing, the oldest fired or redriven" in shown
    assert "Handler calm" not in shown
