"""Prove that the leader handles dead and silent keepers, and that any other coordinator changes nothing."""

from __future__ import annotations

import asyncio

import pytest

from shardclock_server.coordinator.reconciler import Superseded
from shardclock_server.sql.cluster.holders import register_holder
from shardclock_server.sql.cluster.leadership import hand_over
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.factories import value
from tests.support.fake_fleet import (
    BLUE,
    GREEN,
    LEASE_S,
    FakeFleet,
    ask,
    incarnation,
    kept,
    living,
    reconciler_of,
    serving,
    until_left,
)
from tests.support.waiting import eventually


async def test_a_superseded_coordinator_stops_and_changes_nothing(session: Session, dsn: str, fleet: FakeFleet) -> None:
    old = reconciler_of(dsn, fleet)
    await serving(session, old)
    await ask(session, 2, BLUE, fresh=True)

    async with asyncio.timeout(10):
        await old.run()

    assert not fleet.killed
    assert await living(session) == [11, 12]
    with pytest.raises(Superseded):
        await old.turn()
    assert await value(dsn, "select leader from shardclock.leadership") == 2


async def test_shards_of_a_cluster_that_lost_the_lead_serve_until_the_new_leaders_shards_serve(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    blue, green_fleet = reconciler_of(dsn, fleet), FakeFleet("green")
    await serving(session, blue)
    green = reconciler_of(dsn, green_fleet, leader=2, cluster_id=GREEN)
    await green.turn()
    await register_holder(session, incarnation(21, cluster_id=GREEN, actor_name="green-1"))
    await hand_over(session, GREEN, lease_s=LEASE_S)

    await blue.turn()

    assert await kept(session) == {11: 0, 12: 1, 21: None}
    await green.turn()
    assert await kept(session) == {11: None, 12: None, 21: 0}
    assert not fleet.killed, "they still fire their leased timers"
    await green._close()


async def test_a_cluster_that_stands_by_starts_its_shards_and_gives_them_no_slots(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    await ask(session, 2, GREEN)
    reconciler = reconciler_of(dsn, fleet)
    await reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await register_holder(session, incarnation(12, actor_name="shard-2"))

    await reconciler.turn()

    assert await kept(session) == {11: None, 12: None}
    assert list(fleet.there) == ["shard-1", "shard-2"]


async def test_a_leader_ends_only_silent_shards_of_other_clusters(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    await register_holder(session, incarnation(99, cluster_id=GREEN, actor_name="shard-of-green"))
    reconciler = reconciler_of(dsn, fleet)
    await reconciler.turn()
    assert await living(session) == [99]

    await until_left(session, reconciler.turn, clock)


async def test_the_next_incarnation_of_a_coordinator_adopts_the_running_shards(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    await serving(session, reconciler_of(dsn, fleet))

    await reconciler_of(dsn, fleet, leader=2).turn()

    assert await living(session) == [11, 12]
    assert list(fleet.there) == ["shard-1", "shard-2"]


async def test_a_stop_drains_every_shard_and_releases_the_leaders_lease(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    reconciler.stop()

    async with asyncio.timeout(10):
        await reconciler.run()

    assert all(actor.drained for actor in fleet.there.values())
    assert await living(session) == []
    assert (await ask(session, 2, GREEN)).leads


async def test_shards_of_a_killed_up_fire_until_shards_of_the_next_up_have_the_slots(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    killed, next_fleet = reconciler_of(dsn, fleet), FakeFleet("next")
    await serving(session, killed)
    follows = reconciler_of(dsn, next_fleet, leader=2, cluster_id=GREEN)
    killed.stop(is_orphan=True)
    stopping = asyncio.create_task(killed.run())

    async def leads() -> bool:
        await follows.turn()
        return bool(follows.leads)

    await eventually(leads)
    assert not stopping.done()
    assert await kept(session) == {11: 0, 12: 1}
    await register_holder(session, incarnation(21, cluster_id=GREEN, actor_name="next-1"))
    await follows.turn()

    await asyncio.wait_for(stopping, 10)
    assert [actor.drained for actor in fleet.there.values()] == [1, 1]
    assert await kept(session) == {21: 0}
    await follows._close()


async def test_shards_of_a_killed_up_end_after_a_while_without_a_next_up(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    killed = reconciler_of(dsn, fleet, handover_s=0.2)
    await serving(session, killed)
    killed.stop(is_orphan=True)

    await asyncio.wait_for(killed.run(), 10)

    assert [actor.drained for actor in fleet.there.values()] == [1, 1]


async def test_an_orderly_stop_continues_when_the_input_ends(session: Session, dsn: str, fleet: FakeFleet) -> None:
    stopped = reconciler_of(dsn, fleet, handover_s=60.0)
    await serving(session, stopped)
    stopped.stop()
    stopped.stop(is_orphan=True)

    await asyncio.wait_for(stopped.run(), 10)

    assert await living(session) == []


async def test_a_coordinator_whose_shards_never_start_reports_that_it_is_stuck(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    # Given actors that do not register within the time limit of a start
    reconciler = reconciler_of(dsn, fleet, start_s=0.01, stalled_s=0.005)
    await reconciler.turn()
    assert not reconciler.is_stuck

    async def is_stuck() -> bool:
        await reconciler.turn()
        return reconciler.is_stuck

    await eventually(is_stuck)

    # When one actor registers, then the coordinator is no longer stuck
    await register_holder(session, incarnation(11, actor_name=list(fleet.there)[-1]))
    await reconciler.turn()
    assert not reconciler.is_stuck
