"""Test the first page: the verdict, the coming timers, and the rows that need a person."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardclock_server.gateway.console import caching
from shardclock_server.gateway.console.bars import chart_of
from shardclock_server.service.overview import judge
from shardclock_server.sql.metrics.coming import count_coming
from shardclock_server.sql.metrics.status import Status, read_status
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser
from tests.support.console_forms import sign_in_as
from tests.support.deliveries import add_deliveries, add_worker, bury, declare, deliver, let_die
from tests.support.factories import HolderClient, add_timers, query, value
from tests.support.filled_console import add_instance
from tests.support.gateways import Api
from tests.support.sql_client import session

WELL = Status(
    pending=10, pending_estimated=False, paused=0, overdue=0, overdue_estimated=False, oldest_overdue_s=0.0,
    left_by_outage=0, ramp_per_s=None, fired=100, lag_p50_ms=1.0, lag_p99_ms=5.0, lag_max_ms=9.0, last_fired_s=1.0,
    fired_lately=100, lag_p99_lately_ms=5.0,
    shards_wanted=1, workers_wanted=0, deliveries=0, dead_letters=0, term=1, leader=1, leader_alive=True,
    server_time=datetime(2027, 1, 1, tzinfo=UTC),
)  # fmt: skip


@pytest.mark.parametrize(
    ("status", "serving", "hold", "is_on_time", "word"),
    [
        (WELL, 1, None, True, "objective"),
        (replace(WELL, lag_p99_lately_ms=101.0), 1, None, False, "101.0 ms"),
        (replace(WELL, lag_p99_ms=None), 1, None, True, "no timer is overdue"),
        (replace(WELL, lag_p99_lately_ms=900.0, fired_lately=4), 1, None, True, "too few"),
        (replace(WELL, lag_p99_ms=900.0), 1, None, True, "100 firings of the last minute"),
        (replace(WELL, oldest_overdue_s=61.0), 1, None, False, "1 min 1 s"),
        (WELL, 0, None, False, "no shard is running"),
        (WELL, 1, "billing is down", False, "billing is down"),
    ],
)
def test_timers_are_on_time_if_none_is_overdue_and_the_lag_is_within_the_objective(
    status: Status, serving: int, hold: str | None, is_on_time: bool, word: str
) -> None:
    verdict = judge(status, serving=serving, hold=hold)

    assert (verdict.is_on_time, word in verdict.why) == (is_on_time, True)


async def test_late_firings_of_an_earlier_hour_do_not_make_the_present_firings_late(dsn: str, owner: Session) -> None:
    await query(dsn, FIRED, 3600, "TRIGGERED", 200)
    now = FIRED.replace("date_trunc('minute', now()) - interval '7 minutes'", "now()")
    await query(dsn, now, 0, "TRIGGERED", 150)

    verdict = judge(await read_status(owner), serving=1, hold=None)

    assert (verdict.is_on_time, "99 % of 150 firings of the last minute" in verdict.why) == (True, True)


async def test_the_overdue_timers_of_another_tenant_lead_to_this_tenant(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    await sign_in_as(locked_browser, owner, "admin", tenant=None)
    await add_timers(dsn, 3, "now() - interval '5 minutes'", tenant_id="'shop'", name="'cart-' || i")
    await add_timers(dsn, 1, "now() - interval '5 minutes'")

    shown = await locked_browser.get("")

    assert re.search(r"4 overdue, the oldest by 5 min( \d s)?, of tenants shop , default", shown.main)
    (account,) = re.findall(r'href="/console(/account\?tenant=shop[^"]*)"', shown.text)
    form = await locked_browser.get(html.unescape(account))
    assert 'name="tenant" type="text" value="shop"' in form.text
    to = html.unescape(re.findall(r'name="to" value="([^"]*)"', form.text)[0])
    timers = await locked_browser.follow(await locked_browser.submit("/tenant", {"to": to, "tenant": "shop"}))
    assert "cart-3" in timers.main


ENDPOINT = """
    insert into shardclock.endpoints (tenant_id, name, url, secrets)
    select i, 'billing', 'https://example.com', '{whsec_x}' from unnest($1::text[]) i
"""
FAILING = {"failed_attempts": "2", "fired_at": "now() - i * interval '7 min'"}


async def test_other_tenants_that_need_a_person_are_one_click_away_for_operators_only(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    await query(dsn, ENDPOINT, ["shop", "toys", "well", "default"])
    await add_deliveries(dsn, 3, "webhook:billing", tenant_id="'shop'", **FAILING)
    await add_deliveries(dsn, 1, "webhook:billing", tenant_id="'toys'", **FAILING)
    await add_deliveries(dsn, 1, "webhook:billing", tenant_id="'well'")
    await add_deliveries(dsn, 1, "webhook:billing", tenant_id="'default'", **FAILING)
    await add_deliveries(dsn, 1, "webhook:gone", tenant_id="'gone'", **FAILING)
    await bury(dsn, 2)
    await query(dsn, "update shardclock.dead_letters set tenant_id = 'shop' where timer_key = 1")

    await sign_in_as(locked_browser, owner, "read", tenant=None)
    shown = await locked_browser.get("")
    table = shown.main.partition("Needs you in other tenants")[2].partition("The last 2 hours")[0]
    moment = r"\d{4}-\S+ \S+ 7 min( \d s)? ago"
    oldest = moment.replace("7", "21")
    assert re.fullmatch(
        rf".* fired Dead letters acme 0 – 1 shop 1 {oldest} 1 toys 1 {moment} 0 Dead letters of all tenants by reason ",
        table,
    ), table
    switched = await locked_browser.follow(await locked_browser.submit("/tenant", {"to": "/", "tenant": "shop"}))
    assert "Needs you: tenant shop" in switched.main
    assert re.search(rf"billing 3 failing, 3 waiting, the oldest fired or redriven {oldest}", switched.main)
    assert 'value="default"' in switched.text, "the table has the tenants except the chosen tenant"
    assert 'value="shop"' not in switched.text

    await sign_in_as(locked_browser, owner, "admin", tenant="toys")
    assert "other tenants" not in (await locked_browser.get("")).main


FIRED = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target
    )
    select
        date_trunc('minute', now()) - interval '7 minutes', i,
        date_trunc('minute', now()) - interval '7 minutes' - $1 * interval '1 second', now() - interval '1 day', 2, $2,
        'default', 'USER', 'webhook:billing'
    from generate_series(1, $3) i
"""


async def test_the_last_two_hours_are_drawn_with_a_link_to_the_records_of_the_worst_minute(
    dsn: str, api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "FRESH_S", -1.0)
    await api.post("/v1/endpoints", {"name": "billing", "url": "https://billing.example.com/hooks"})
    empty = (await browser.get("")).main
    assert "Firings 0 – Late firings 0 – Deliveries 0 – New dead letters 0 –" in empty
    for late_s, intent, number in ((0, "TRIGGERED", 5), (95, "TRIGGERED", 2), (0, "DELIVERED", 4), (0, "DEAD", 3)):
        await query(dsn, FIRED, late_s, intent, number)

    for path in ("", "/endpoints/billing", "/deliveries?target=webhook:billing"):
        shown = await browser.get(path)
        minute = r"\d\d:\d\d"
        late = rf"Late firings 2 {minute} : 2, the latest by 1 min 35 s"
        rows = rf"Firings 7 {minute} : 7 {late} Deliveries 4 {minute} : 4 New dead letters 3 {minute} : 3"
        assert re.search(rows, shown.main), shown.main
        drawn = re.findall(r'class="(\w+)" d="M(\d+) 24v-(\d+)"', shown.text)
        assert [(kind, place, height == "24") for kind, place, height in drawn] == [
            ("fired", "562", True), ("late", "562", False), ("delivered", "562", True), ("died", "562", True),
        ]  # fmt: skip
        (dead,) = re.findall(r'href="/console(/log\?event=DEAD[^"]*)"', shown.text)
        assert (await browser.get(html.unescape(dead))).main.count("DEAD") == 3 + 1, "three records, and the choice"
    assert "Firings 0" in (await browser.get("/deliveries?target=webhook:crm")).main
    assert "Firings" not in (await browser.get("/deliveries")).main


async def test_coming_timers_are_counted_by_minute_and_target(dsn: str) -> None:
    await declare(dsn, "a", "b", "small0", "small1", "small2", "small3")
    await add_timers(dsn, 3, "now() - interval '1 minute'")
    await add_timers(dsn, 4, "now() + interval '30 seconds'", target="'a'")
    await add_timers(dsn, 5, "now() + interval '29 minutes 30 seconds'", target="'b'")
    await add_timers(dsn, 2, "now() + interval '31 minutes'", target="'b'")
    await add_timers(dsn, 7, "now() + interval '90 seconds'", tenant_id="'eve'")
    for number in range(4):
        await add_timers(dsn, 1, "now() + interval '10 minutes 30 seconds'", target=f"'small{number}'")

    async with session(dsn, "gateway") as reader:
        found = await count_coming(reader, "default", with_jobs=False)
        all_of_them = await count_coming(reader, None, with_jobs=True)

    rows = [(it.minute, it.target, it.timers, it.estimated) for it in found if it.minute != 11]
    assert rows == [(0, "log", 3, False), (1, "a", 4, False), (30, "b", 5, False)]
    assert found[0].oldest_due_at == await value(dsn, "select min(due_date) from shardclock.timers")
    assert sorted((it.target or "", it.timers) for it in found if it.minute == 11) == [
        ("", 2), ("small0", 1), ("small1", 1),
    ]  # fmt: skip
    assert sum(it.timers for it in all_of_them) == 23


def test_the_bars_of_a_minute_are_stacked_without_a_gap() -> None:
    chart = chart_of([{"a": 60, "b": 30}, {}, {"b": 1}], [("a", 60), ("b", 31)])
    low, high, small = chart.bars

    assert (chart.largest, low.target, high.target) == (90, "a", "b")
    assert low.y == high.y + high.height
    assert (small.height, small.minute) == (1, 3)
    assert chart_of([{}], []).bars == []


async def test_the_page_shows_dead_letters_endpoints_and_coming_timers_of_the_tenant(
    dsn: str, browser: Browser
) -> None:
    await let_die(dsn, 2)
    endpoint = """
        insert into shardclock.endpoints (tenant_id, name, url, secrets, policy, headers, disabled_at, disabled_why)
        values ($1, 'billing', 'https://example.com', '{whsec_x}', '{}', '{}', now(), $2)
    """
    await query(dsn, endpoint, "default", XSS)
    await query(dsn, endpoint, "eve", "of another tenant")
    await add_timers(dsn, 4, "now() + interval '30 seconds'", target="'order.expired'")

    shown = await browser.get("")

    shown.assert_escapes()
    assert "of another tenant" not in shown.text
    assert re.search(r"order.expired\s+2", shown.main)
    assert "too few firings of the last minute" in shown.main
    assert re.search(r"order.expired\s+4", shown.main)
    assert "4 in minute 1: order.expired" in shown.main


async def test_no_number_of_other_rows_hides_a_target_or_an_endpoint_that_needs_a_person(
    dsn: str, browser: Browser
) -> None:
    await bury(dsn, 1_010, "webhook:noise")
    await bury(dsn, 2, "webhook:pay")
    await query(dsn, "update shardclock.dead_letters set tenant_id = 'default'")
    endpoints = """
        insert into shardclock.endpoints (tenant_id, name, url, secrets, policy, headers, disabled_at, disabled_why)
        select 'default', name, 'https://example.com', '{whsec_x}', '{}', '{}', disabled_at, left('closed', n)
        from (
            select 'a' || to_char(i, 'FM000') as name, null::timestamptz as disabled_at, null::integer as n
            from generate_series(0, 99) i
            union all
            select 'zz-payments', now(), 6
        ) e
    """
    await query(dsn, endpoints)

    shown = (await browser.get("")).main

    assert "webhook:noise 1,000 or more" in shown
    assert "webhook:pay 2, the first" in shown
    assert ("zz-payments" in shown, "a000" in shown) == (True, False)


async def test_only_operators_get_the_figures_of_the_installation(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    await sign_in_as(locked_browser, owner, "read", tenant="ada")
    assert "shards serve" not in (await locked_browser.get("")).main
    tenants = (await locked_browser.get("")).main
    assert ("Nothing: no dead letter" in tenants, "late job" in tenants) == (True, False)

    await query(dsn, "update shardclock.identity set held_why = 'prices are wrong'")
    await sign_in_as(locked_browser, owner, "read", tenant="eve")
    held = (await locked_browser.get("")).main
    assert ("On hold nothing fires" in held, "prices are wrong" in held) == (True, False)

    await sign_in_as(locked_browser, owner, "operate", tenant=None)
    assert "shards serve" in (await locked_browser.get("")).main


async def test_a_timer_that_a_shard_has_paused_needs_a_person_until_it_is_resumed(dsn: str, browser: Browser) -> None:
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'beat'")
    await query(dsn, "select shardclock.pause_timer(name => 'beat', reason => 'by hand')")
    assert (await browser.api.get("/v1/schedules/refused")).json == {"timers": []}

    refuse = (
        "update shardclock.command_log set detail = jsonb_build_object('refused', $1::text) where intent = 'PAUSED'"
    )
    await query(dsn, refuse, XSS)
    shown = await browser.get("")
    shown.assert_escapes()
    assert "Paused by a shard beat" in shown.main
    (found,) = (await browser.api.get("/v1/schedules/refused")).json["timers"]
    assert (found["name"], found["reason"]) == ("beat", XSS)

    await query(dsn, "select shardclock.resume_timer(name => 'beat')")
    assert (await browser.api.get("/v1/schedules/refused")).json == {"timers": []}


async def test_incidents_with_the_same_process_node_and_sentence_are_one_row_with_their_number(
    dsn: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "FRESH_S", -1.0)
    await add_instance(dsn, browser.api)
    add = """
        insert into shardclock.incidents (instance_key, token, node_id, sentence, raised_at)
        select 101, i, $1, $2, now() - i * interval '1 minute' from generate_series($3::integer, $4::integer) i
    """
    await query(dsn, add, "charge", XSS, 1, 40)
    await query(dsn, add, "pack", "no box", 41, 41)

    shown = await browser.get("")

    shown.assert_escapes()
    assert shown.text.count("<td>Incident</td>") == 2
    assert re.search(r"p, charge .*; 40 similar , the first \S+ \S+ 40 min", shown.main)
    assert "p, pack no box" in shown.main
    await query(dsn, add, "charge", XSS, 42, 120)
    assert "or more similar" in (await browser.get("")).main


async def test_waiting_deliveries_without_a_worker_need_a_person(
    dsn: str, browser: Browser, shard: HolderClient
) -> None:
    await declare(dsn, "order.expired")
    await add_worker(dsn, 11, targets=())
    await deliver(shard)

    shown = (await browser.get("")).main

    line = "start one with `shardclock up --app MODULE` (order.expired has 1 waiting delivery)"
    assert ("Deliveries wait" in shown, line in shown) == (True, True)
