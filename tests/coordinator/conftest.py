"""Fixtures: a session with a coordinator's rights, a fleet that only records, and two clusters on such fleets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.coordinator import crew, holders_seen, keeper_processes
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.factories import query
from tests.support.fake_fleet import FakeFleet, reconciler_of
from tests.support.roles import as_role
from tests.support.two_clusters import LOCAL, NODE, RAY, WANT_ONE, TwoClusters


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that measures silences and starts; a test moves it by one second per turn (`UNSEEN_S`)."""
    clock = Clock()
    for module in (crew, holders_seen, keeper_processes):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
async def two(session: Session, dsn: str) -> AsyncIterator[TwoClusters]:
    """Yield the local cluster and Ray's cluster, before their first turn; the host of Ray is ready."""
    await query(dsn, WANT_ONE)
    fleets = FakeFleet("local"), FakeFleet("ray")
    local = reconciler_of(dsn, fleets[0], 1, LOCAL, beside=RAY)
    local.lead_until_ready(NODE)
    yield TwoClusters(session, dsn, local, reconciler_of(dsn, fleets[1], 2, RAY, node_id=NODE), *fleets)
    for fleet in fleets:
        for reconciler in fleet.reconcilers:
            await reconciler._close()
