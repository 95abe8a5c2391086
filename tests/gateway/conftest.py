"""Provide a gateway without keys, a gateway that needs keys, and a session that may make keys."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.session import Session
from tests.support.gateways import Api, serving
from tests.support.sql_client import session


@pytest.fixture
async def api(dsn: str) -> AsyncIterator[Api]:
    """Serve the test's own gateway on its database."""
    async with serving(dsn) as api:
        yield api


@pytest.fixture
async def locked(dsn: str) -> AsyncIterator[Api]:
    """Serve a gateway that needs keys."""
    async with serving(dsn, needs_keys=True) as api:
        yield api


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[Session]:
    """Open a session that may make keys."""
    async with session(dsn, "owner") as opened:
        yield opened
