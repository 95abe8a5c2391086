"""Test the frame of all pages: headers, static files, errors, messages, sub-path, cache, themes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from shardclock_server.gateway.console import assets
from shardclock_server.gateway.console.caching import PageRoute
from shardclock_server.gateway.console.pages import timers
from shardclock_server.gateway.console.routes import PAGES
from shardclock_server.gateway.routes.finding import find_page
from tests.support import ROOT
from tests.support.console import XSS, Browser, browsing
from tests.support.gateways import Api, serving

POLICY = {
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
    "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
}  # fmt: skip


async def test_each_page_has_a_strict_policy_and_no_inline_script_or_style(browser: Browser) -> None:
    for path in ("", "/timers", "/account", "/nowhere"):
        shown = await browser.get(path)
        assert {part.strip() for part in shown.headers["Content-Security-Policy"].split(";")} == POLICY
        assert shown.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", shown.text)
        assert '<html lang="en"' in shown.text


async def test_static_files_are_kept_for_ever_by_their_hash(browser: Browser) -> None:
    shown = await browser.get("")
    named = re.findall(r'"/console(/static/(\w+)/([\w.]+))"', shown.text)
    assert {name for _, _, name in named} == {"console.css", "console.js", "idiomorph.min.js"}
    for path, digest, name in named:
        file = await browser.get(path)
        assert hashlib.sha256(file.text.encode()).hexdigest().startswith(digest)
        assert "immutable" in file.headers["Cache-Control"]
        assert (await browser.get(path, If_None_Match=file.headers["ETag"])).status == 304
        assert (await browser.get(f"/static/old/{name}")).headers["Cache-Control"] == "no-cache"
    assert (await browser.get("/static/x/shell.py")).status == 404


async def test_files_and_shared_pages_are_compressed_for_a_browser_that_accepts_gzip(browser: Browser) -> None:
    static = re.findall(r'"/console(/static/[^"]*)"', (await browser.get("")).text)
    for path in ("", "/timers", *static):
        plain, zipped = [await browser.get(path, Accept_Encoding=it) for it in ("gzip;q=0, identity", "br, gzip")]
        assert [it.headers.get("Content-Encoding") for it in (plain, zipped)] == [None, "gzip"], path
        assert int(zipped.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 2
        assert "Accept-Encoding" in plain.headers["Vary"]
        assert path in ("", "/timers") or plain.text == zipped.text

    mine = await browser.get("/account", Accept_Encoding="gzip")
    assert "Content-Encoding" not in mine.headers, "the length of a page for one viewer tells nothing about it"


def test_the_vendored_file_equals_the_published_file() -> None:
    notice = (ROOT / "NOTICE").read_text()
    stated = re.search(r"sha256: (\w{64})", notice)
    assert stated is not None
    assert hashlib.sha256((assets.FOLDER / "idiomorph.min.js").read_bytes()).hexdigest() == stated[1]
    assert "idiomorph 0.7.4" in notice
    assert "Zero-Clause BSD" in notice


def test_the_first_load_is_small() -> None:
    sizes = {name: len(asset.body) for name, asset in assets.ASSETS.items()}
    assert sizes["console.css"] < 10_240
    assert sizes["console.js"] < 4_096
    assert sum(sizes.values()) < 24_000


async def test_a_refusal_is_a_page_with_the_sentence_the_status_and_a_way_back(browser: Browser) -> None:
    missing = await browser.get("/nowhere")
    assert (missing.status, missing.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "there is nothing at /console/nowhere" in missing.main

    wrong = await browser.submit("/timers", Referer=f"{browser.api.url}/console/timers?state=paused")
    assert wrong.status == 405
    assert 'href="/console/timers?state=paused">Back' in wrong.text

    foreign = await browser.submit("/timers", Referer="https://evil.example/console/x")
    assert 'href="/console">Back' in foreign.text

    unknown = await browser.submit("/theme", {"colour": XSS, XSS: "1"})
    assert unknown.status == 422
    assert "<script>alert" not in unknown.text


async def test_pages_of_one_second_read_postgres_once(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[object]()

    async def counted(*given: object, **more: object) -> object:
        calls.append(given)
        return await find_page(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(timers, "find_page", counted)
    for _ in range(3):
        assert (await browser.get("/timers")).status == 200
    assert (await browser.get("/timers?state=paused")).status == 200
    assert len(calls) == 2


async def test_a_theme_is_stored_and_is_part_of_the_cache_key(browser: Browser) -> None:
    assert "data-theme" not in (await browser.get("/timers")).text
    await browser.follow(await browser.submit("/theme", {"theme": "dark", "to": "/timers"}))
    assert 'data-theme="dark"' in (await browser.get("/timers")).text
    await browser.submit("/theme", {"theme": "", "to": "/timers"})
    assert "data-theme" not in (await browser.get("/timers")).text


async def test_behind_a_proxy_all_links_begin_with_its_path(dsn: str) -> None:
    async with serving(dsn, gateway_url="https://example.com/time") as api, browsing(api) as browser:
        shown = await browser.get("/timers")
        addresses = re.findall(r'(?:href|src|action|data-live)="(/[^"]*)"', shown.text)
        assert len(addresses) > 5
        assert [it for it in addresses if not it.startswith("/time/console")] == []
        themed = await browser.submit("/theme", {"theme": "dark"})
        assert "Path=/time/console" in themed.headers["Set-Cookie"]
        assert "Secure" in themed.headers["Set-Cookie"]


async def test_the_root_of_a_gateway_leads_a_browser_to_the_console(api: Api, browser: Browser) -> None:
    root = await api.ask("GET", "/", Accept="application/json")
    root.assert_problem("not_found", 404)
    assert b"<h1>" in (await api.ask("GET", "/", Accept="text/html,*/*")).body


def test_each_page_uses_the_cache() -> None:
    routes = [route for router in PAGES for route in router.routes]
    assert len(routes) >= 2
    assert [route for route in routes if not isinstance(route, PageRoute)] == []


def test_each_template_extends_the_layout_and_marks_no_text_as_safe() -> None:
    folder = Path(assets.__file__).parent / "templates"
    texts = {file.name: file.read_text() for file in folder.glob("*.html")}
    assert [name for name, text in texts.items() if "|safe" in text or "| safe" in text or "autoescape" in text] == []
    pages = {name for name, text in texts.items() if '{% extends "layout.html" %}' in text}
    assert pages == {name for name in texts if not name.endswith(("layout.html", "parts.html"))}
