"""Test the pages of the cluster, the tenants and the keys: rows, verbs, records, and refusals."""

from __future__ import annotations

import pytest

from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser
from tests.support.console_forms import form_on, hidden_fields, sign_in_as
from tests.support.factories import add_holder, add_timers, query, value

ACTS = "select verb, interface, outcome, tenant_id, parameters from shardclock.audit order by act_id"


async def acts(dsn: str) -> list[tuple[object, ...]]:
    return [(row["verb"], row["interface"], row["outcome"]) for row in await query(dsn, ACTS)]


async def test_the_page_shows_each_keeper_and_escapes_its_host(dsn: str, browser: Browser) -> None:
    await add_holder(dsn, 1)
    await query(dsn, "update shardclock.holders set host = $1", XSS)

    shown = await browser.get("/cluster")
    assert shown.status == 200, shown.main

    shown.assert_escapes()
    assert "0000000000000001" in shown.main
    assert "serving" in shown.main


async def test_an_operator_scales_sets_the_ramp_holds_and_releases(dsn: str, browser: Browser) -> None:
    scaled = await browser.submit("/cluster/scale/shard", {"wanted": 3})
    assert "3 shards wanted" in (await browser.follow(scaled)).text
    bounded = await browser.submit("/cluster/forecast/shard", {"min": 2, "max": 8, "target_per_s": 5_000})
    assert "the forecast may ask for 2 to 8" in (await browser.follow(bounded)).text
    ramped = await browser.submit("/cluster/ramp", {"per_s": 0})
    assert "the timers are held back" in (await browser.follow(ramped)).text
    await browser.submit("/cluster/ramp", {"per_s": ""})
    held = await browser.submit("/cluster/hold", {"reason": XSS})
    (await browser.follow(held)).assert_escapes()
    assert await value(dsn, "select held_why from shardclock.identity") == XSS
    asked = await browser.get("/cluster/release")
    asked.assert_escapes()
    assert "Belongs to" in asked.main
    assert "Would belong to" in asked.main
    assert asked.actions == ["/console/cluster/release"]
    assert await value(dsn, "select held_why from shardclock.identity") == XSS
    form = form_on(asked, "/cluster/release")
    changed = await browser.submit(form.action, form.fields | {"hold_reason": "another"})
    assert (changed.status, "nothing was released: the numbers have changed" in changed.main) == (409, True)
    assert await value(dsn, "select held_why from shardclock.identity") == XSS
    released = await browser.submit("/cluster/release", hidden_fields(changed))
    assert "the database is released" in (await browser.follow(released)).text
    assert "Nothing to release" in (await browser.get("/cluster/release")).main

    told = await acts(dsn)
    assert told.pop(5) == ("release", "console", "not done")
    assert told == [(verb, "console", "done") for verb in ("scale", "scale", "ramp", "ramp", "hold", "release")]
    assert await value(dsn, "select ramp_per_s is null from shardclock.coordination")


async def test_a_release_is_refused_if_more_timers_would_fire_than_its_page_has_shown(
    dsn: str, browser: Browser
) -> None:
    await browser.submit("/cluster/hold", {"reason": "billing is down"})
    await add_timers(dsn, 20)
    asked = await browser.get("/cluster/release")
    assert "Overdue 20" in asked.main
    await add_timers(dsn, 3)

    form = form_on(asked, "/cluster/release")
    refused = await browser.submit(form.action, form.fields)
    assert (refused.status, "the numbers have changed" in refused.main, "Overdue 23" in refused.main) == (
        409,
        True,
        True,
    )
    assert await value(dsn, "select held_why from shardclock.identity") == "billing is down"
    await add_timers(dsn, 2)
    released = await browser.submit("/cluster/release", hidden_fields(refused))

    assert "the database is released" in (await browser.follow(released)).text, "a tenth more is no other release"
    assert (await browser.submit("/cluster/release")).status == 422, "the page comes first"


async def test_a_refusal_has_the_sentence_of_the_api_and_is_recorded(dsn: str, browser: Browser) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("/cluster/scale/shard", {"wanted": 0}, "840"),
        ("/cluster/scale/shard", {}, "wanted"),
        ("/cluster/forecast/shard", {}, "give either wanted"),
        ("/cluster/ramp", {"per_s": "fast"}, "per_s"),
        ("/cluster/hold", {"reason": "x", "force": "1"}, "force"),
        ("/tenants/ada/set", {"timers_max": "-1"}, "timers"),
    ]
    for path, fields, word in cases:
        refused = await browser.submit(path, fields)
        assert (refused.status, word in refused.main) == (422, True)
    assert [told[1:] for told in await acts(dsn)] == [("console", "not done")] * len(cases)


async def test_limits_of_a_tenant_are_set_and_removed(dsn: str, browser: Browser) -> None:
    name = "Ädä/'x"
    path = "/tenants/%C3%84d%C3%A4%2F'x"
    unknown = await browser.get("/tenant-usage?tenant=typing-error")
    assert (unknown.status, "tenant 'typing-error' is unknown: it has no pending timers" in unknown.main) == (404, True)
    assert unknown.actions == ["/console/tenants/typing-error/set"], "a new tenant may get limits first"
    saved = await browser.submit(f"{path}/set", {"timers_max": 12, "rate_per_s": "0.5"})
    shown = await browser.follow(saved)
    assert f"the limits of tenant {name} are set" in shown.text.replace("&#39;", "'")
    assert "timers 0 12" in shown.main
    assert "instances 0 1,000,000" in shown.main
    assert 'placeholder="1000000"' in shown.text
    assert name in (await browser.get("/tenants")).main

    removed = await browser.follow(await browser.submit(f"{path}/remove"))

    assert "The limits of the gateway's settings apply" in removed.main
    assert await acts(dsn) == [("tenants set", "console", "done"), ("tenants remove", "console", "done")]
    assert (await browser.get("/tenant-usage?tenant=%0A")).status == 422


async def test_keys_are_listed_without_their_secrets(dsn: str, locked_browser: Browser, owner: Session) -> None:
    prefix = await sign_in_as(locked_browser, owner, "admin", tenant=None)
    await query(dsn, "update shardclock.api_keys set name = $1", XSS[:100])

    shown = await locked_browser.get("/keys")

    shown.assert_escapes(XSS[:100])
    assert prefix in shown.main
    assert "sck_" not in shown.text


@pytest.mark.parametrize(
    ("scope", "tenant", "path"),
    [
        ("admin", "ada", "/cluster"),
        ("read", None, "/cluster"),
        ("operate", None, "/tenants"),
        ("admin", "ada", "/keys"),
    ],
)
async def test_other_keys_get_neither_the_link_nor_the_page_nor_the_verbs(
    dsn: str, locked_browser: Browser, owner: Session, *, scope: str, tenant: str | None, path: str
) -> None:
    await sign_in_as(locked_browser, owner, scope, tenant=tenant)

    assert f'href="/console{path}"' not in (await locked_browser.get("/account")).text
    assert (await locked_browser.get(path)).status == 403
    for verb in ("/cluster/ramp", "/cluster/hold", "/cluster/release", "/cluster/scale/shard", "/tenants/ada/set"):
        assert scope == "operate" or (await locked_browser.submit(verb, {"reason": "x"})).status == 403
    assert (await locked_browser.submit("/tenants/ada/remove")).status == 403
    assert await value(dsn, "select count(*) from shardclock.identity where held_why is not null") == 0


async def test_a_long_message_is_cut_so_that_the_browser_keeps_it(browser: Browser) -> None:
    await browser.submit("/cluster/hold", {"reason": "😀" * 200})
    held = await browser.submit("/cluster/hold", {"reason": "😁" * 200})

    assert len(held.headers["Set-Cookie"]) < 4_096
    assert "the database is on hold: 😁" in (await browser.follow(held)).text


async def test_the_author_of_a_pause_leads_an_administrator_to_the_name_of_the_key(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'digest'")
    prefix = await sign_in_as(locked_browser, owner, "write")
    await locked_browser.submit("/timers/by-name/digest/pause", {"reason": "the mail server moves"})
    link = f'href="/console/keys#{prefix}"'
    assert link not in (await locked_browser.get("/timers/by-name/digest")).text, "this key may not see other keys"

    await sign_in_as(locked_browser, owner, "admin", tenant=None)

    shown = await locked_browser.get("/timers/by-name/digest")
    assert link in shown.text
    assert f"by the API key write ({prefix}) (the mail server moves)" in shown.main
    assert (f"key_prefix: {prefix} ( write )" in shown.main, "by: " in shown.main) == (True, False)
    assert f'<tr id="{prefix}"><th scope="row">write</th>' in (await locked_browser.get("/keys")).text
