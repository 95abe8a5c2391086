"""If a Ray loses its head, its shards fire timers until a shard of the next Ray takes over their slots."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.cluster.holders import register_holder
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.fake_fleet import FakeFleet, incarnation, kept, reconciler_of, serving, until_left


@pytest.fixture
async def fleets() -> AsyncIterator[tuple[FakeFleet, FakeFleet]]:
    """Yield the fleet of the Ray that lost its head, and the fleet of the next Ray."""
    fleets = FakeFleet(), FakeFleet("next")
    yield fleets
    for fleet in fleets:
        for reconciler in fleet.reconcilers:
            await reconciler._close()


async def test_shards_of_a_ray_cluster_without_a_head_serve_until_a_shard_of_the_next_ray_cluster_serves(
    session: Session, dsn: str, fleets: tuple[FakeFleet, FakeFleet]
) -> None:
    # Given two serving shards, and a new Ray that does not know these shards
    await serving(session, reconciler_of(dsn, fleets[0]))
    coordinator = reconciler_of(dsn, fleets[1], leader=2)

    # Then the new coordinator starts new shards, and ends the old shards only when new shards have registered
    await coordinator.turn()
    await coordinator.turn()
    assert list(fleets[1].there) == ["next-1", "next-2"]
    assert await kept(session) == {11: 0, 12: 1}

    # When the first new shard is registered, then it has all slots, and the old shards are ended
    await register_holder(session, incarnation(21, actor_name="next-1"))
    await coordinator.turn()
    assert await kept(session) == {21: 0}


async def test_a_dead_shard_of_a_ray_cluster_without_a_head_is_ended_after_its_silence(
    session: Session, dsn: str, fleets: tuple[FakeFleet, FakeFleet], clock: Clock
) -> None:
    await serving(session, reconciler_of(dsn, fleets[0]))
    coordinator = reconciler_of(dsn, fleets[1], leader=2)

    await until_left(session, coordinator.turn, clock)
