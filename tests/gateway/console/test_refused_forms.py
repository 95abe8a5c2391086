"""Test that a refused form shows its page again, with the sentence and with all typed texts."""

from __future__ import annotations

import html
from unittest import mock

import pytest

from shardclock.api.codes import OVER_QUOTA
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.console import XSS, Browser
from tests.support.console_forms import console_acts, form_on, sign_in_as
from tests.support.deliveries import let_die
from tests.support.factories import value
from tests.support.gateways import Api

CASES = [
    ("/endpoints", "/endpoints", {"name": XSS, "url": "https://billing.example.com/a", "asymmetric": "true"}),
    ("/endpoints/hook", "/endpoints/hook/change", {"url": "nonsense", "timeout_s": "7"}),
    ("/timers/by-name/order-1", "/timers/by-name/order-1/cancel", {"reason": "too slow " * 200}),
    ("/cluster", "/cluster/ramp", {"per_s": "fast"}),
    ("/tenant-usage?tenant=acme", "/tenants/acme/set", {"timers_max": "many", "endpoints_max": "12"}),
    ("/timers/by-name/order-1", "/timers/by-name/order-1/move", {"due_date": "2027-01-31 8 o'clock"}),
    ("/timers/by-name/order-1", "/timers/by-name/order-1/pause", {"until": "soon", "reason": "a holiday"}),
    ("/schedules/new", "/schedules/new", {"schedule": "0 25 * * *", "name": "nightly", "payload": '{"a": 1}'}),
]


@pytest.mark.parametrize(("page", "address", "typed"), CASES)
async def test_a_refused_form_is_shown_again_with_what_was_typed(
    api: Api, browser: Browser, page: str, address: str, typed: dict[str, str]
) -> None:
    await browser.submit("/endpoints", {"name": "hook", "url": "https://billing.example.com/hooks"})
    await api.post("/v1/timers", {"name": "order-1", "delay": "PT1H"})
    shown = await browser.get(page)
    for attempt in ("first", "second"):
        form = form_on(shown, address)

        shown = await browser.submit(form.action, {**form.fields, **typed})

        assert (attempt, shown.status) == (attempt, 422), shown.main
        again = form_on(shown, address)
        assert {name: again.fields.get(name) for name in typed} == typed
        assert 'role="alert"' in shown.text
        assert "<script>alert" not in shown.text
        assert "What you typed" not in shown.main


async def test_a_corrected_form_is_accepted_and_the_audit_has_no_page(dsn: str, browser: Browser) -> None:
    form = form_on(await browser.get("/endpoints"), "/endpoints")
    refused = await browser.submit(form.action, {"name": "hook", "url": "nonsense"})

    again = form_on(refused, "/endpoints")
    added = await browser.submit(again.action, {**again.fields, "url": "https://billing.example.com/hooks"})

    assert added.status == 200, added.main
    assert [(verb, set(fields), done) for verb, fields, done in await console_acts(dsn)] == [
        ("endpoints add", {"name", "url"}, "not done"),
        ("endpoints add", {"name", "url"}, "done"),
    ]
    assert await value(dsn, "select count(*) from shardclock.endpoints") == 1


async def test_only_the_refused_form_of_a_page_shows_the_typed_texts(api: Api, browser: Browser) -> None:
    await api.post("/v1/timers", {"name": "order-1", "delay": "PT1H"})
    form = form_on(await browser.get("/timers/by-name/order-1"), "/timers/by-name/order-1/cancel")

    refused = await browser.submit(form.action, {"reason": "x" * 2_000})

    assert refused.text.count(f'value="{"x" * 2_000}"') == 1
    assert form_on(refused, "/timers/by-name/order-1/pause").fields["reason"] == ""
    assert refused.text.count('<details class="verb" open>') == 1


async def test_the_typed_texts_are_shown_although_the_page_has_no_such_form_any_more(
    api: Api, browser: Browser
) -> None:
    await api.post("/v1/timers", {"name": "order-1", "delay": "PT1H"})
    form = form_on(await browser.get("/timers/by-name/order-1"), "/timers/by-name/order-1/pause")
    await browser.submit("/timers/by-name/order-1/cancel")

    refused = await browser.submit(form.action, {"reason": XSS})

    assert (refused.status, "What you typed" in refused.main) == (409, True)
    refused.assert_escapes()


async def test_a_bulk_change_keeps_the_list_the_selection_and_the_texts(api: Api, browser: Browser) -> None:
    keys = [
        str((await api.post("/v1/timers", {"name": f"order-{it}", "delay": "PT1H"})).json["timer_key"]) for it in "ab"
    ]
    listed = await browser.get("/timers?name_prefix=order-")
    form = form_on(listed, "/timers/bulk/shift")

    fields = {**form.fields, "shift": "an hour", "timer_keys": [keys[0]]}
    refused = await browser.submit(form.action, fields)

    assert (refused.status, "order-b" in refused.main) == (422, True)
    assert form_on(refused, "/timers/bulk/shift").fields["shift"] == "an hour"
    assert f'value="{keys[0]}" checked' in refused.text
    assert f'value="{keys[1]}" checked' not in refused.text


async def test_a_refused_confirmation_of_a_bulk_change_shows_what_was_typed(api: Api, browser: Browser) -> None:
    await api.post("/v1/timers", {"name": "order-1", "delay": "PT1H"})
    form = form_on(await browser.get("/timers?name_prefix=order-"), "/timers/bulk/shift")
    action = form.action.replace("/shift", "/pause")
    confirmation = form_on(await browser.submit(action, form.fields), "/timers/bulk/pause")

    refused = await browser.submit(confirmation.action, {**confirmation.fields, "until": "next week"})

    assert refused.status == 422
    assert "until next week" in refused.main
    assert "order-1" in refused.main
    for name in ("token", "timer_keys", "name_prefix", "state"):
        assert f"<dt>{name}</dt>" not in refused.text


async def test_the_form_of_a_tenant_keeps_the_text_and_the_next_page(browser: Browser) -> None:
    form = form_on(await browser.get("/account?to=/schedules"), "/tenant")

    refused = await browser.submit(form.action, {**form.fields, "tenant": "a\tb"})

    assert (refused.status, 'role="alert"' in refused.text) == (422, True)
    again = form_on(refused, "/tenant")
    assert again.fields == {"tenant": "a\tb", "to": "/schedules"}
    assert "What you typed" not in refused.main
    chosen = await browser.submit(again.action, {**again.fields, "tenant": "acme"})
    assert (chosen.status, chosen.location) == (303, "/console/schedules")


async def test_two_forms_about_one_role_keep_only_their_own_texts(browser: Browser) -> None:
    shown = await browser.get("/cluster")
    for address, typed, other in (
        ("/cluster/scale/shard", {"wanted": "many"}, "/cluster/forecast/shard"),
        ("/cluster/forecast/shard", {"min": "5", "max": "2", "target_per_s": "9"}, "/cluster/scale/shard"),
    ):
        form, usual = form_on(shown, address), form_on(shown, other).fields

        refused = await browser.submit(form.action, typed)

        assert (refused.status, form_on(refused, address).fields) == (422, typed)
        assert form_on(refused, other).fields == usual
        assert refused.text.count('<details class="verb" open>') == 1


async def test_a_preview_and_a_refusal_after_it_keep_the_texts(browser: Browser) -> None:
    typed = {"schedule": "0 8 * * *", "zone": "Europe/Berlin", "target": "webhook:none", "payload": "{"}
    form = form_on(await browser.get("/schedules/new"), "/schedules/new")
    previewed = await browser.submit(form.action.replace("/new", "/preview", 1), {**form.fields, **typed})
    again = form_on(previewed, "/schedules/new")

    refused = await browser.submit(again.action, again.fields)

    assert (previewed.status, refused.status) == (200, 422)
    assert form_on(refused, "/schedules/new").fields == {**form.fields, **typed}


OVER = Problem(OVER_QUOTA, "too many changes", headers={"Retry-After": "7"})


@pytest.mark.parametrize(("error", "status"), [(OVER, 429), (StoreUnavailable("gone"), 503)])
async def test_a_quota_and_a_failure_of_postgres_keep_the_texts(
    api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    form = form_on(await browser.get("/timers/new"), "/timers/new")
    monkeypatch.setattr(api.gateway.quotas, "take_write", mock.AsyncMock(side_effect=error))

    refused = await browser.submit(form.action, {"name": "order-1", "payload": "kept text"})

    assert (refused.status, "kept text" in refused.main) == (status, True)
    shown = ["/console/timers/new"] if status == 429 else []  # the page could fail as the form did
    assert (refused.actions, "What you typed" in refused.main) == (shown, not shown)
    assert "Retry-After" in refused.headers


async def test_a_viewer_without_the_right_gets_the_typed_texts_and_no_form(
    owner: Session, locked_browser: Browser
) -> None:
    await sign_in_as(locked_browser, owner, "read")

    refused = await locked_browser.submit("/endpoints?acting_for=default&shown_on=/endpoints", {"name": XSS})

    assert (refused.status, refused.actions) == (403, [])
    refused.assert_escapes()


async def test_a_form_that_is_too_large_names_the_way_back_to_its_texts(browser: Browser) -> None:
    form = form_on(await browser.get("/timers/new"), "/timers/new")

    refused = await browser.submit(form.action, {"payload": "x" * 200_000})

    assert (refused.status, "The browser's Back button" in refused.main) == (413, True)
    assert "xxx" not in refused.main


async def test_the_texts_are_listed_if_the_form_has_moved_to_another_page(dsn: str, browser: Browser) -> None:
    (timer_key,) = await let_die(dsn, 1)
    page = f"/deliveries/{timer_key}"

    refused = await browser.submit(f"{page}/cancel?shown_on={page}", {"reason": "kept text"})

    assert (refused.status, "kept text" in refused.main) == (409, True), refused.text


async def test_a_form_of_another_tenant_and_a_foreign_page_show_no_form(
    owner: Session, locked_browser: Browser
) -> None:
    await sign_in_as(locked_browser, owner, "admin", tenant=None)
    form = form_on(await locked_browser.get("/endpoints"), "/endpoints")
    for page in (
        "https://evil.example/",
        "//evil.example/",
        "/nowhere",
        "/endpoints\r\nx",
        "/sign-out",
        "[x",
        "/instances/5",
    ):
        refused = await locked_browser.submit(
            f"/endpoints?acting_for=default&shown_on={html.escape(page)}", {"name": "kept text", "url": "x"}
        )
        assert (page, refused.status) == (page, 422), refused.main
        assert "kept text" in refused.main
    await locked_browser.submit("/tenant", {"tenant": "acme"})

    refused = await locked_browser.submit(form.action, {"name": "kept text", "url": "x"})

    assert (refused.status, refused.actions) == (409, [])
    assert "kept text" in refused.main
