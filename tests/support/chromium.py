"""Debian's chromium, driven by Playwright: pages with their console errors and violations of the policy."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser as Chromium
from playwright.async_api import ConsoleMessage, Page, async_playwright

from tests.support.factories import BOUND_S

SERIOUS = {"serious", "critical"}
# A page's script can't listen before the page's policy is in force.
LISTEN = """
    window.violations = [];
    addEventListener("securitypolicyviolation", (it) => violations.push(`${it.violatedDirective} ${it.blockedURI}`));
"""


@dataclass
class WatchedPage:
    """One page of the browser, and the errors that its console has shown."""

    page: Page
    errors: list[str] = field(default_factory=list)

    async def open(self, url: str) -> None:
        await self.page.goto(url, wait_until="load")

    async def assert_sound(self) -> None:
        """Assert that the page fits the window, and has no error, no violation and no serious fault for assistive
        technology.
        """
        where = self.page.url
        assert self.errors == [], where
        assert await self.page.evaluate("window.violations") == [], where
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await self.page.evaluate(overflow) <= 0, where
        faults = (await Axe().run(self.page)).response["violations"]
        shown = [(it["id"], [node["html"] for node in it["nodes"]]) for it in faults if it["impact"] in SERIOUS]
        assert shown == [], where


@asynccontextmanager
async def chromium() -> AsyncIterator[Chromium]:
    """Start the browser; skip the test if the browser is missing."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium here: `make chromium` installs it")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def watched(browser: Chromium, **context: Any) -> AsyncIterator[WatchedPage]:
    opened = await browser.new_context(**context)
    page = await opened.new_page()
    page.set_default_timeout(BOUND_S * 1_000)
    found = WatchedPage(page)

    def keep(message: ConsoleMessage) -> None:
        if message.type == "error":
            found.errors.append(message.text)

    page.on("console", keep)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    if context.get("java_script_enabled", True):
        await page.add_init_script(LISTEN)
    try:
        yield found
    finally:
        await opened.close()
