"""Lend tests a gateway without keys."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.gateways import Api, serving


@pytest.fixture
async def api(dsn: str) -> AsyncIterator[Api]:
    """Ask a gateway of the test's own, on its database."""
    async with serving(dsn) as api:
        yield api
