"""Test the section "operator events" of an endpoint's page: its content, its verbs, and the rights of readers."""

from __future__ import annotations

from shardclock_server.sql.notify.events import EVENT_KINDS, OPERATOR_KINDS
from shardclock_server.sql.session import Session
from tests.support.console import Browser
from tests.support.console_forms import console_acts, sign_in_as
from tests.support.factories import query
from tests.support.gateways import Api
from tests.support.operator_events import send, subscribe

URL = "https://hooks.example.com/services/T0/B0"
EVENT = """
    insert into shardclock.operator_events (tenant_id, kind, subject, sentence)
    values ('default', 'delivery.dead', 'order.expired', 'the delivery was given up')
"""
VERBS = ("subscribe", "unsubscribe", "test-event")


async def test_an_endpoint_is_subscribed_and_unsubscribed(dsn: str, api: Api, browser: Browser) -> None:
    await api.post("/v1/endpoints", {"name": "chat", "url": URL})
    before = await browser.get("/endpoints/chat")
    assert "The endpoint gets no events." in before.main
    assert all(kind in before.main for kind in EVENT_KINDS)

    form = {"kinds": "job.failed", "failures_min": 5, "text_only": "true"}
    shown = await browser.follow(await browser.submit("/endpoints/chat/subscribe", form))
    assert "endpoint webhook:chat gets job.failed" in shown.text
    assert "Kinds job.failed Failed runs in a row 5 Body only the text" in shown.main
    assert (await browser.submit("/endpoints/chat/subscribe", {"failures_min": 5})).status == 422
    ended = await browser.follow(await browser.submit("/endpoints/chat/unsubscribe"))

    assert "The endpoint gets no events." in ended.main
    assert [(verb, outcome) for verb, _, outcome in await console_acts(dsn)] == [
        ("notify add", "done"), ("notify add", "not done"), ("notify remove", "done"),
    ]  # fmt: skip


async def test_the_page_shows_the_last_event_and_the_events_that_wait(dsn: str, browser: Browser) -> None:
    await subscribe(dsn, "delivery.dead", name="chat")
    for _ in range(2):
        await query(dsn, EVENT)
        await send(dsn)

    assert "1 waiting" in (await browser.get("/endpoints/chat")).main


async def test_a_read_only_key_gets_no_buttons_and_a_tenant_gets_no_event_of_the_installation(
    dsn: str, owner: Session, locked_browser: Browser
) -> None:
    await subscribe(dsn, "delivery.dead", name="chat")

    await sign_in_as(locked_browser, owner, "read")
    shown = await locked_browser.get("/endpoints/chat")
    assert "Kinds delivery.dead" in shown.main
    assert not [path for path in shown.actions if path.rpartition("/")[2] in VERBS]
    for verb in VERBS:
        assert (await locked_browser.submit(f"/endpoints/chat/{verb}", {"kinds": "delivery.dead"})).status == 403

    await sign_in_as(locked_browser, owner, "operate")
    offered = (await locked_browser.get("/endpoints/chat")).main
    assert [kind for kind in OPERATOR_KINDS if kind in offered] == []
    assert (await locked_browser.submit("/endpoints/chat/subscribe", {"kinds": "cluster.lag"})).status == 403
    assert (await locked_browser.submit("/endpoints/chat/subscribe", {"kinds": "quota.reached"})).status == 303

    await sign_in_as(locked_browser, owner, "operate", tenant="eve")
    assert (await locked_browser.submit("/endpoints/chat/unsubscribe")).status == 404
