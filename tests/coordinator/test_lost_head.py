"""Prove what becomes of shards whose Ray lost its head: they fire until the next Ray has one that takes their part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.cluster.holders import register_holder
from shardclock_server.sql.session import Session
from tests.support.fake_fleet import FakeFleet, incarnation, kept, living, reconciler_of, serving


@pytest.fixture
async def fleets() -> AsyncIterator[tuple[FakeFleet, FakeFleet]]:
    """Give the actors of the Ray that lost its head, and those of the next."""
    fleets = FakeFleet(), FakeFleet("next")
    yield fleets
    for fleet in fleets:
        for reconciler in fleet.reconcilers:
            await reconciler._close()


async def test_shards_of_a_ray_that_lost_its_head_serve_until_one_of_the_next_ray_does(
    session: Session, dsn: str, fleets: tuple[FakeFleet, FakeFleet]
) -> None:
    # Given two shards that serve, and a Ray in the place of theirs that knows nothing of them
    await serving(session, reconciler_of(dsn, fleets[0]))
    coordinator = reconciler_of(dsn, fleets[1], leader=2)

    # Then its coordinator starts its own, and leaves those who fire alone for as long as there is nobody else
    await coordinator.turn()
    await coordinator.turn()
    assert list(fleets[1].there) == ["next-1", "next-2"]
    assert await kept(session) == {11: 0, 12: 1}

    # When the first of its own is there, then it has all slots, and the others are no more
    await register_holder(session, incarnation(21, actor_name="next-1"))
    await coordinator.turn()
    assert await kept(session) == {21: 0}


async def test_a_dead_shard_of_a_ray_that_lost_its_head_is_ended_when_it_is_silent(
    session: Session, dsn: str, fleets: tuple[FakeFleet, FakeFleet]
) -> None:
    await serving(session, reconciler_of(dsn, fleets[0]))
    coordinator = reconciler_of(dsn, fleets[1], leader=2, silent_s=0.05)

    async with asyncio.timeout(10):
        while await living(session):
            await coordinator.turn()
