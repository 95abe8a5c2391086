"""Test the pages of processes and instances: the drawing, the waits, the history and the verbs."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import pytest

from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.chromium import chromium, watched
from tests.support.console import XSS, Browser
from tests.support.console_forms import form_on
from tests.support.drawn_models import drawn_model
from tests.support.factories import add_schedule, add_timers, query, value
from tests.support.gateways import Api
from tests.support.instances import write_instance

NOTE = XSS.replace('"', "")  # JSON would write a backslash before a quote
OF_INSTANCE = {
    "target": "'process:instance'", "process_instance_key": "101", "element_instance_key": "3",
    "target_element_id": "'too-late'", "timer_type": "'BOUNDARY'", "name": "'process:101:3:' || i",
}  # fmt: skip


async def write(dsn: str, api: Api, text: bytes) -> int:
    """Deploy a model, and insert its running instance 101; return the definition's key."""
    deployed = await api.deploy(text)
    key: int = deployed.json["processes"][0]["definition_key"]
    await write_instance(dsn, key, text, {"order": 42, "note": NOTE})
    return key


async def recorded(dsn: str) -> list[str]:
    """List the verbs in the audit that the console has sent."""
    acts = "select verb from shardclock.audit where interface = 'console' and outcome = 'done'"
    return [row["verb"] for row in await query(dsn, acts)]


async def test_a_process_is_listed_and_drawn(api: Api, browser: Browser) -> None:
    deployed = await api.deploy(drawn_model())
    key = deployed.json["processes"][0]["definition_key"]

    assert f'href="/console/processes/{key}"' in (await browser.get("/processes")).text
    drawn = await browser.get(f"/processes/{key}")

    assert drawn.text.count("<rect") == 1
    assert drawn.text.count("<circle") == 5, "four events, the boundary event with two"
    assert "Approve the</text>" in drawn.text or "Approve the order" in drawn.main
    assert (await browser.get("/processes/7")).status == 404


async def test_an_instance_shows_its_tokens_on_the_drawing_and_its_timers_with_their_verbs(
    dsn: str, api: Api, browser: Browser
) -> None:
    await write(dsn, api, drawn_model())
    (timer,) = await add_timers(dsn, 1, "now() + interval '1 hour 1 minute'", **OF_INSTANCE)

    assert 'href="/console/instances/101"' in (await browser.get("/instances?state=running")).text
    shown = await browser.get("/instances/101")

    shown.assert_escapes(NOTE)
    assert '<g class="token"><title>Approve the order: 1 token</title>' in shown.text
    assert re.search(rf'<a href="/console/timers/{timer}"><text class="due"[^>]*>in 1 h', shown.text)
    assert '"order": 42' in shown.main
    assert 'href="/console/log?process_instance_key=101&amp;since=' in shown.text
    moved = await browser.submit(f"/timers/{timer}/operate", {"verb": "reschedule", "delay": "PT0S"})
    assert f"timer {timer}: RESCHEDULED" in (await browser.follow(moved)).text
    one = await browser.get(f"/timers/{timer}")
    assert set(one.actions) == {f"/console/timers/{timer}/operate"}
    assert 'href="/console/instances/101"' in one.text
    assert await recorded(dsn) == ["operate"]


async def test_an_incident_is_shown_and_resolved(dsn: str, api: Api, browser: Browser) -> None:
    await write(dsn, api, drawn_model())
    await query(
        dsn,
        "insert into shardclock.incidents (instance_key, token, node_id, sentence) values (101, 3, 'u', $1)",
        XSS,
    )

    shown = await browser.get("/instances/101")
    assert XSS in shown.main
    assert "<script>alert" not in shown.text
    assert '<g class="token stuck">' in shown.text
    done = await browser.submit("/instances/101/resolve", {"token": 3})

    told = (await browser.follow(done)).text
    assert "instance 101: the resolution is queued for an engine" in told
    assert "if the cause remains, the step fails again, and this page shows a new incident" in told
    assert await value(dsn, "select count(*) from shardclock.deliveries where target = 'process:instance'") == 1
    assert await recorded(dsn) == ["processes resolve"]


async def test_the_verbs_of_an_instance_send_signals(dsn: str, api: Api, browser: Browser) -> None:
    await write(dsn, api, drawn_model())

    for verb, fields, sentence in (
        ("variables", {"variables": '{"paid": true}', "token": 1}, "the variables are queued for an engine"),
        ("move", {"begun": "e"}, "the moves are queued for an engine"),
        ("cancel", {}, "the cancellation is queued for an engine"),
    ):
        done = await browser.submit(f"/instances/101/{verb}", fields)
        assert f"instance 101: {sentence}" in (await browser.follow(done)).text
    assert await value(dsn, "select count(*) from shardclock.deliveries where target = 'process:instance'") == 3


async def test_a_refused_verb_has_the_sentence_of_the_refusal(dsn: str, api: Api, browser: Browser) -> None:
    await write(dsn, api, drawn_model())
    cases: list[tuple[str, dict[str, object], str]] = [
        ("variables", {"variables": "[1]"}, "not a JSON object"),
        ("variables", {"variables": "{"}, "is not JSON"),
        ("move", {"terminated": "three"}, "token 'three' is not a number"),
        ("move", {"terminated": "99"}, "99"),
        ("move", {"terminated": " ,", "begun": ""}, "the move names neither a token nor a node"),
        ("resolve", {"token": 3}, "instance 101 has no incident at token 3"),
    ]
    for verb, fields, words in cases:
        refused = await browser.submit(f"/instances/101/{verb}", fields)
        assert (refused.status in (404, 409, 422), words in refused.main) == (True, True)


async def test_refused_variables_are_shown_again_in_their_form(dsn: str, api: Api, browser: Browser) -> None:
    await write(dsn, api, drawn_model())
    form = form_on(await browser.get("/instances/101"), "/instances/101/variables")
    typed = {"variables": '{"paid": true,\n "note": "<b>"', "token": "7"}

    refused = await browser.submit(form.action, typed)

    assert refused.status == 422
    assert form_on(refused, "/instances/101/variables").fields == typed
    assert "is not JSON" in refused.main


async def test_an_instance_without_a_drawing_shows_the_list_of_its_waits(dsn: str, api: Api, browser: Browser) -> None:
    await write(dsn, api, model('<startEvent id="s"/><userTask id="u"/>', connected="s>u"))

    assert "has no drawing" in (await browser.get("/instances/101")).main


async def test_a_read_only_key_gets_no_buttons_and_another_tenant_gets_no_instance(
    dsn: str, owner: Session, api: Api, locked: Api, locked_browser: Browser
) -> None:
    async def key_of(tenant: str) -> str:
        return (await keys.make(owner, WantedKey(tenant, "night", ("read",)))).text

    definition = await write(dsn, api, drawn_model())
    await locked_browser.sign_in(await key_of("default"))
    shown = await locked_browser.get("/instances/101")
    assert [it for it in shown.actions if "/instances" in it] == []
    for verb in ("cancel", "variables", "move", "resolve"):
        assert (await locked_browser.submit(f"/instances/101/{verb}", {})).status == 403
    await locked_browser.sign_in(await key_of("eve"))
    for path in ("/instances/101", f"/processes/{definition}"):
        assert (await locked_browser.get(path)).status == 404
    assert "101" not in (await locked_browser.get("/instances")).main


async def test_the_names_of_a_model_and_a_business_key_are_escaped(dsn: str, api: Api, browser: Browser) -> None:
    definition = await write(dsn, api, drawn_model(html.escape(XSS)))
    await query(
        dsn,
        "insert into shardclock.business_keys (business_key, tenant_id, instance_key) values ($1, 'default', 101)",
        XSS,
    )

    (await browser.get("/instances")).assert_escapes()
    (await browser.get(f"/instances?business_key={quote(XSS)}")).assert_escapes()
    for path in ("/instances/101", f"/processes/{definition}"):
        shown = (await browser.get(path)).text
        assert "&lt;script&gt;" in shown
        assert "<script>alert" not in shown
        assert "<img" not in shown


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "theme"), [(1_280, "light"), (320, "dark")])
async def test_the_pages_of_an_instance_and_its_timer_have_no_error_in_a_browser(
    dsn: str, api: Api, width: int, theme: str
) -> None:
    definition = await write(dsn, api, drawn_model())
    (timer,) = await add_timers(dsn, 1, "now() + interval '1 hour'", **OF_INSTANCE)
    await add_schedule(dsn)
    async with (
        chromium() as opened,
        watched(opened, viewport={"width": width, "height": 900}, color_scheme=theme) as seen,
    ):
        for path in (f"/processes/{definition}", "/instances/101", f"/timers/{timer}", "/timers/by-name/beat"):
            await seen.open(f"{api.url}/console{path}")
            await seen.assert_sound()
