"""Fill in forms of the console, sign in with new keys, and read the audit records of the console's changes."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

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
    """Sign in with a new key of a tenant; None signs in with an operator's key. Return the key's prefix."""
    made = await keys.make(owner, WantedKey(tenant, scopes[0], scopes))
    shown = await browser.sign_in(made.text)
    assert shown.status == 303, shown.main
    return made.key.prefix


async def console_acts(dsn: str) -> list[tuple[str, dict[str, object], str]]:
    """Read the verbs, the parameters and the outcomes of the console's audit records, the oldest first."""
    text = "select verb, parameters, outcome from shardclock.audit where interface = 'console' order by act_id"
    rows = await query(dsn, text)
    return [(row["verb"], json.loads(row["parameters"]), row["outcome"]) for row in rows]


@dataclass
class Form:
    """A form of a page: its address, as `Browser.submit` takes it, and the values that a browser would send."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)


class _Forms(HTMLParser):
    """Read the forms of a page that change something."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._area: str | None = None
        self._select: str | None = None
        self._is_within = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "form":
            self._is_within = given.get("method") == "post"
            if self._is_within:
                self.forms.append(Form((given.get("action") or "").removeprefix("/console")))
        elif self._is_within and tag == "textarea":
            self._area = name
        elif self._is_within and tag == "select":
            self._select = name
        elif self._select is not None and tag == "option" and "selected" in given:
            self.forms[-1].fields[self._select] = given.get("value") or ""
        elif self._is_within and tag == "input" and (given.get("type") != "checkbox" or "checked" in given):
            self.forms[-1].fields[name] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_within = False
        elif tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            fields = self.forms[-1].fields
            fields[self._area] = fields.get(self._area, "") + data


def form_on(shown: Shown, address: str) -> Form:
    """Return the page's first form with this address, without the query."""
    parser = _Forms()
    parser.feed(shown.text)
    return next(it for it in parser.forms if it.action.partition("?")[0] == address)
