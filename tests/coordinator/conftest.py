"""Lend tests a session with the rights of a coordinator, and a fleet that only records."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.session import Session
from tests.support.fake_fleet import FakeFleet
from tests.support.roles import as_role


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(dsn, "shard"), application="test") as opened:
        yield opened


@pytest.fixture
async def fleet() -> AsyncIterator[FakeFleet]:
    fleet = FakeFleet()
    yield fleet
    for reconciler in fleet.reconcilers:
        await reconciler._close()
