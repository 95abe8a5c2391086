"""Fill in forms of the console, sign in with new keys, and read the audit records of the console's changes."""

from __future__ import annotations

import html
import json
import re

from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.console import Browser, Shown
from tests.support.factories import query

HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
LINK = re.compile(r'<a href="/console([^"]*)" rel="next">')


def hidden_fields(shown: Shown) -> dict[str, str]:
    return {name: html.unescape(given) for name, given in HIDDEN.findall(shown.text)}


def next_page(shown: Shown) -> str:
    (path,) = LINK.findall(shown.text)
    return html.unescape(path)


async def sign_in_as(browser: Browser, owner: Session, *scopes: str, tenant: str | None = "default") -> str:
    """Sign in with a new key of a tenant, or without a tenant with an operator's key; return the key's prefix."""
    made = await keys.make(owner, WantedKey(tenant, scopes[0], scopes))
    shown = await browser.sign_in(made.text)
    assert shown.status == 303, shown.main
    return made.key.prefix


async def console_acts(dsn: str) -> list[tuple[str, dict[str, object], str]]:
    """Read the verbs, the parameters and the outcomes of the console's audit records, the oldest first."""
    text = "select verb, parameters, outcome from shardclock.audit where interface = 'console' order by act_id"
    rows = await query(dsn, text)
    return [(row["verb"], json.loads(row["parameters"]), row["outcome"]) for row in rows]
