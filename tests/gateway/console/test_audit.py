"""Test the page of the audit: its filters, its texts, and the rights to open it."""

from __future__ import annotations

import json

from shardclock_server.gateway.console.pages.listing import ROWS
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser
from tests.support.console_forms import next_page, sign_in_as
from tests.support.factories import query

ADD = """
    insert into shardclock.audit (
        recorded_at, role, interface, key_name, tenant_id, verb, parameters, outcome, address
    )
    select now() - i * interval '1 min', 'gate', 'api', $1, 'acme', $2, $3::jsonb, 'done', '10.0.0.7'
    from generate_series(1, $4) i
"""


async def test_acts_are_found_by_verb_actor_and_time_with_their_reasons(dsn: str, browser: Browser) -> None:
    await query(dsn, ADD, "ann", "endpoints disable", json.dumps({"name": "billing", "reason": XSS}), 1)
    await query(
        dsn,
        ADD,
        "bob",
        "tenants set",
        json.dumps({"tenant": "acme", "timers_max": 5, "changes": ["a 1 → 5"]}),
        ROWS + 1,
    )

    first = await browser.get("/audit")
    first.assert_escapes()
    rest = await browser.get(next_page(first))
    assert (first.text.count("<tr>"), rest.text.count("<tr>")) == (ROWS + 1, 3)
    of_ann = await browser.get("/audit?actor=ann")
    assert ("name billing" in of_ann.main, of_ann.text.count("<tr>")) == (True, 2)
    of_bob = await browser.get("/audit?verb=tenants")
    assert ("tenant acme, timers_max 5: a 1 → 5" in of_bob.main, "ann" in of_bob.main) == (True, False)
    assert "No change by an operator matches" in (await browser.get("/audit?since=2999-01-01T00:00:00Z")).main
    wrong = await browser.get("/audit?since=soon&actor=ann")
    assert (wrong.status, "since 'soon'" in wrong.main, 'value="ann"' in wrong.text) == (422, True, True)


async def test_only_an_administrator_of_all_tenants_reads_the_audit(locked_browser: Browser, owner: Session) -> None:
    statuses = []
    for tenant, scope in (("default", "admin"), (None, "operate"), (None, "admin")):
        await sign_in_as(locked_browser, owner, scope, tenant=tenant)
        statuses.append((await locked_browser.get("/audit")).status)
    assert statuses == [403, 403, 200]
