"""A browser without JavaScript for the tests of the console: it stores cookies and sends the headers of a browser."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookies import Morsel

import aiohttp
from yarl import URL

from tests.support.gateways import Api

XSS = """<script>alert(1)</script>"><img src=x onerror=alert(2)>'{{7331*7331}}"""
MAIN = re.compile(r"<main.*</main>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class Shown:
    """The answer to a request of a browser, before a redirect is followed."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def location(self) -> str:
        """Return the path to which the browser is sent."""
        return self.headers["Location"]

    @property
    def main(self) -> str:
        """Return the text of the page's main part, without tags, and with single spaces."""
        found = MAIN.search(self.text)
        assert found is not None, self.text
        return " ".join(html.unescape(TAG.sub(" ", found.group())).split())

    @property
    def actions(self) -> list[str]:
        """List the paths of the forms that change something."""
        return re.findall(r'<form method="post" action="([^"?]*)', self.text)

    def assert_escapes(self, text: str = XSS) -> None:
        """Assert that the page contains a tenant's text only in escaped form."""
        assert text in self.main
        assert "<script>alert" not in self.text
        assert "<img" not in self.text
        assert "53743561" not in html.unescape(self.text).replace(text, ""), "the text was read as a template"


class Browser:
    """A viewer of one gateway's console."""

    def __init__(self, session: aiohttp.ClientSession, api: Api) -> None:
        self.api = api
        self._session = session

    @property
    def cookies(self) -> list[Morsel[str]]:
        return list(self._session.cookie_jar)

    async def get(self, path: str, **headers: str) -> Shown:
        """Open a page of the console; `path` is relative to the console's root."""
        return await self._ask("GET", path, None, headers)

    async def submit(self, path: str, fields: Mapping[str, object] | None = None, **headers: str) -> Shown:
        """Send a form from a page of the console; a list is a field that occurs several times."""
        pairs = [
            (name, str(value))
            for name, values in (fields or {}).items()
            for value in (values if isinstance(values, list) else [values])
        ]
        origin = {"Origin": self.api.url, "Sec_Fetch_Site": "same-origin"}
        return await self._ask("POST", path, pairs, origin | headers)

    async def sign_in(self, key: str) -> Shown:
        return await self.submit("/sign-in", {"key": key})

    async def follow(self, shown: Shown) -> Shown:
        """Open the page to which an answer sends the browser."""
        assert shown.status == 303, shown.text
        return await self.get(shown.location.removeprefix("/console"))

    async def _ask(
        self, method: str, path: str, fields: Sequence[tuple[str, str]] | None, headers: Mapping[str, str]
    ) -> Shown:
        given = {name.replace("_", "-"): value for name, value in headers.items() if value}
        url = URL(f"{self.api.url}/console{path}", encoded=True)
        async with self._session.request(
            method, url, data=fields, headers={"Accept": "text/html", **given}, allow_redirects=False
        ) as answer:
            return Shown(answer.status, answer.headers.copy(), await answer.text())


@asynccontextmanager
async def browsing(api: Api) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield Browser(session, api)
