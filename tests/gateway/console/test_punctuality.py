"""Test that the overview answers whether a tenant's timers fire on time, with the firings of the last minutes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from shardclock_server.service.overview import judge_tenant
from shardclock_server.sql.metrics.past import PastMinute
from shardclock_server.sql.session import Session
from tests.support.console import Browser
from tests.support.console_forms import sign_in_as
from tests.support.factories import add_timers, query

FIRED = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target
    )
    select
        moment, i, moment - $2 * interval '1 second', now() - interval '1 day', 2, 'TRIGGERED', $4, 'USER', 'log'
    from generate_series(1, $3) i
    cross join (select date_trunc('minute', now()) - $1 * interval '1 minute') as m (moment)
"""
OF_MINUTES = """
    select to_char(date_trunc('minute', recorded_at) at time zone 'UTC', 'HH24:MI') as minute, count(*) as fired,
        count(*) filter (where recorded_at - due_date > interval '1 second') as late
    from shardclock.command_log
    where tenant_id = 'shop' and recorded_at >= date_trunc('minute', now()) - interval '9 minutes'
    group by 1 order by 1 desc
"""


def minute(fired: int, late: int, latest_s: float, *, estimated: bool = False) -> PastMinute:
    return PastMinute(datetime(2027, 1, 1, tzinfo=UTC), fired, late, latest_s, 0, 0, estimated)


@pytest.mark.parametrize(
    ("minutes", "overdue_s", "is_held", "is_on_time", "why"),
    [
        ([], 0.0, False, True, "no timer is overdue, and no timer has fired in the last 10 minutes"),
        ([], 75.0, False, False, "the oldest overdue timer waits for 1 min 15 s"),
        ([minute(5, 0, 0.1)], 0.9, True, False, "nothing fires until an operator releases the database"),
        ([minute(1, 0, 0.1)], 0.9, False, True, "none of 1 firing in the last 10 minutes had a lag of more than 1 s"),
        ([minute(5, 1, 95.0)], 0.0, False, False, "1 of 5 firings in the last 10 minutes had a lag of more than 1 s"),
        ([minute(50, 1, 95.0), minute(60, 0, 0.1)], 0.0, False, True, "1 of 110 firings in the last 10 minutes"),
        ([minute(9, 2, 95.0, estimated=True)], 0.0, False, False, "about 2 of about 9 firings"),
    ],
)
def test_timers_of_a_tenant_are_on_time_if_none_is_overdue_and_few_have_fired_late(
    minutes: list[PastMinute], overdue_s: float, is_held: bool, is_on_time: bool, why: str
) -> None:
    verdict = judge_tenant(minutes, overdue_s=overdue_s, is_held=is_held)

    assert (verdict.is_on_time, why in verdict.why) == (is_on_time, True), verdict.why


async def test_a_tenant_reads_whether_its_timers_were_on_time_in_each_of_the_last_minutes(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    for minutes_ago, late_s, number, tenant_id in (
        (1, 0, 20, "shop"), (1, 95, 2, "shop"), (8, 0, 3, "shop"), (12, 300, 40, "shop"), (1, 300, 40, "toys"),
    ):  # fmt: skip
        await query(dsn, FIRED, minutes_ago, late_s, number, tenant_id)
    await sign_in_as(locked_browser, owner, "read", tenant="shop")

    shown = (await locked_browser.get("")).main

    counted = await query(dsn, OF_MINUTES)
    rows = "".join(rf" {it['minute']} {it['fired']} {it['late']} \S+ \w+( \d+ s)?" for it in counted)
    assert [(it["fired"], it["late"]) for it in counted] == [(22, 2), (3, 0)]
    table = rf"Firings of each minute Minute from Firings Late firings Greatest lag{rows} Needs you"
    assert re.search(table, shown), shown
    assert "On time: tenant shop Not on time 2 of 25 firings in the last 10 minutes had a lag" in shown
    assert ", the latest by 1 min 35 s" in shown
    assert "all tenants" not in shown


@pytest.mark.parametrize("late_s", [0, 95])
async def test_the_minutes_are_shown_only_if_timers_were_late(
    dsn: str, locked_browser: Browser, owner: Session, late_s: int
) -> None:
    await query(dsn, FIRED, 1, late_s, 20, "shop")
    await sign_in_as(locked_browser, owner, "read", tenant="shop")

    page = await locked_browser.get("")

    assert ('<details class="narrow" open>' in page.text) == bool(late_s)
    assert "Firings of each minute" in page.main


async def test_the_numbers_of_the_installation_are_labelled_beside_the_tenant_of_the_viewer(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    await add_timers(dsn, 3, "now() - interval '5 minutes'", tenant_id="'shop'")
    await sign_in_as(locked_browser, owner, "admin", tenant=None)

    shown = (await locked_browser.get("")).main
    of_all, _, of_tenant = shown.partition("On time: tenant default")

    assert re.search(r"On time: all tenants .* 3 overdue", of_all)
    assert of_tenant.startswith(" On time no timer is overdue, and no timer has fired in the last 10 minutes")
    assert "Needs you: tenant default, and the jobs and workers of the installation" in of_tenant
    await locked_browser.submit("/tenant", {"tenant": "shop"})
    assert "Not on time the oldest overdue timer waits for 5 min" in (await locked_browser.get("")).main
