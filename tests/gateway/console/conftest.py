"""Provide browsers of three gateways: without keys, with required keys, and with an identity provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import asyncpg
import pytest
from asyncpg.connection import LoggedQuery

from shardclock_server.sql import session, session_settings
from tests.support.console import Browser, browsing
from tests.support.gateways import Api
from tests.support.identity_provider import IdentityProvider, providing, signing_people_in


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


@pytest.fixture
async def provider() -> AsyncIterator[IdentityProvider]:
    """Run an identity provider."""
    async with providing() as found:
        yield found


@pytest.fixture
async def gateway(dsn: str, provider: IdentityProvider) -> AsyncIterator[Api]:
    """Serve a gateway of this provider."""
    async with signing_people_in(dsn, provider.url) as api:
        yield api


@pytest.fixture
async def person(gateway: Api) -> AsyncIterator[Browser]:
    """Open a browser without a session."""
    async with browsing(gateway) as opened:
        yield opened


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[LoggedQuery]:
    """Collect the statements of all sessions that this process opens later; request it before a gateway's fixture."""
    sent: list[LoggedQuery] = []

    async def listen(dsn: str, settings: Mapping[str, str], *, timeout_s: float) -> asyncpg.Connection:
        connection = await session_settings.connect(dsn, settings, timeout_s=timeout_s)
        connection.add_query_logger(sent.append)
        return connection

    monkeypatch.setattr(session, "connect", listen)
    return sent
