"""Provide browsers: of a gateway without keys, and of a gateway that needs keys."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.console import Browser, browsing
from tests.support.gateways import Api


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    """Open the console of a gateway without keys."""
    async with browsing(api) as opened:
        yield opened


@pytest.fixture
async def locked_browser(locked: Api) -> AsyncIterator[Browser]:
    """Open the console of a gateway that needs keys, without a sign-in."""
    async with browsing(locked) as opened:
        yield opened
