"""While Ray does not answer, a coordinator uses only Postgres, and ignores Ray's earlier answers."""

from __future__ import annotations

from functools import partial

import pytest

from shardclock_server.coordinator import reconciler as reconcilers
from shardclock_server.coordinator.fleet import FleetUnavailable
from shardclock_server.coordinator.heartbeat_monitor import UNSEEN_S
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.sql.cluster.holders import beat, list_holders, register_holder
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.fake_fleet import GREEN, FakeFleet, ask, incarnation, kept, reconciler_of, serving, until_left
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcilers, "ASK_AGAIN_S", 0.0)


async def turn_without(reconciler: Reconciler) -> None:
    """Run a turn in which Ray does not answer the coordinator's request."""
    with pytest.raises(FleetUnavailable):
        await reconciler.turn()


async def test_the_slots_of_a_silent_shard_are_assigned_to_the_other_shards(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    # Given two shards that serve, and a Ray that does not answer
    reconciler = reconciler_of(dsn, fleet)
    _, second = await serving(session, reconciler)
    fleet.is_away = True

    # When one shard is silent
    await until_left(session, partial(turn_without, reconciler), clock, second)

    # Then the other shard has all slots
    (left,) = await list_holders(session)
    assert (left.part, left.part_count) == (0, 1)

    # When Ray answers again, then the coordinator kills the silent actor and starts another actor
    fleet.is_away = False
    await beat(session, second, held=0)
    await reconciler.turn()
    assert fleet.killed == [fleet.there["shard-1"]]
    assert list(fleet.there) == ["shard-1", "shard-2", "shard-3"]


async def test_an_actor_that_only_seems_to_have_ended_keeps_its_slots(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    fleet.is_away = True
    fleet.there["shard-1"].dies.set()
    await eventually(lambda: bool(reconciler._crews[0]._processes.gone()))

    await turn_without(reconciler)

    assert await kept(session) == {11: 0, 12: 1}


async def test_a_coordinator_that_knows_no_actors_ends_no_holders(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    await serving(session, reconciler_of(dsn, fleet))
    fleet.is_away = True
    successor = reconciler_of(dsn, fleet, leader=2)

    await turn_without(successor)
    for _ in range(9):
        clock.now_s += UNSEEN_S
        await turn_without(successor)

    assert await kept(session) == {11: 0, 12: 1}


async def test_a_coordinator_that_does_not_lead_ends_only_its_own_silent_shards(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    # Given a cluster that stands by, and a shard of the leading cluster
    await ask(session, 2, GREEN)
    await register_holder(session, incarnation(21, cluster_id=GREEN, actor_name="green-1"))
    reconciler = reconciler_of(dsn, fleet)
    await reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await reconciler.turn()
    fleet.is_away = True

    # When both shards are silent, then the standby cluster ends its own shard
    await until_left(session, partial(turn_without, reconciler), clock, 21, heard=False)


async def test_after_a_request_without_an_answer_the_coordinator_sends_no_request_to_ray_for_a_while(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcilers, "ASK_AGAIN_S", 600.0)
    reconciler = reconciler_of(dsn, fleet)
    _, second = await serving(session, reconciler)
    fleet.is_away = True
    await turn_without(reconciler)

    # No turn raises an error, because the turn sends no request to Ray.
    await until_left(session, reconciler.turn, clock, second)
