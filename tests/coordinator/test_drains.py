"""The coordinator's turns continue while a keeper drains, so that a takeover does not wait for the drain."""

from __future__ import annotations

import asyncio

import pytest

from shardclock_server.coordinator.fleet import FleetUnavailable
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.sql.cluster.holders import register_holder
from shardclock_server.sql.session import Session
from tests.support.factories import query
from tests.support.fake_fleet import BLUE, FakeActor, FakeFleet, ask, incarnation, kept, living, reconciler_of, serving
from tests.support.waiting import eventually

TURN_S = 10.0  # much longer than a turn, and much shorter than the time limit of a drain in these tests
SCALE = "update shardclock.scale set wanted = {}"


async def third_drains(session: Session, dsn: str, fleet: FakeFleet, *, drain_s: float = 60.0) -> Reconciler:
    """Start three shards, and then want two; the drain of the third shard hangs."""
    reconciler = reconciler_of(dsn, fleet, drain_s=drain_s)
    await query(dsn, SCALE.format(3))
    await reconciler.turn()
    for number in (1, 2, 3):
        await register_holder(session, incarnation(10 + number, actor_name=f"shard-{number}"))
    await reconciler.turn()
    assert await kept(session) == {11: 0, 12: 1, 13: 2}
    fleet.there["shard-3"].may_drain.clear()
    await query(dsn, SCALE.format(2))
    async with asyncio.timeout(TURN_S):
        await reconciler.turn()
    await eventually(lambda: fleet.there["shard-3"].drained == 1)
    return reconciler


def third(fleet: FakeFleet) -> FakeActor:
    return fleet.there["shard-3"]


async def test_a_turn_takes_over_from_a_dead_shard_while_another_one_drains(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = await third_drains(session, dsn, fleet)
    fleet.there["shard-1"].dies.set()
    await eventually(lambda: bool(reconciler._crews[0]._processes.gone()))

    async with asyncio.timeout(TURN_S):
        await reconciler.turn()

    assert await kept(session) == {12: 0, 13: None}, "shard 11 has ended, and shard 12 has all slots"
    assert len(fleet.there) == 4, "one replacement, for the dead one"


async def test_the_slots_of_a_dead_shard_are_reassigned_before_the_fleet_is_asked_to_kill_the_shard(
    session: Session, dsn: str, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    dead, found = fleet.there["shard-1"], list[dict[int, int | None]]()

    async def record() -> None:
        found.append(await kept(session))

    monkeypatch.setattr(dead, "kill", record)
    dead.dies.set()
    await eventually(lambda: bool(reconciler._crews[0]._processes.gone()))

    await reconciler.turn()

    assert found == [{12: 0}]


async def test_a_dead_actor_that_the_fleet_did_not_kill_is_killed_in_a_later_turn(
    session: Session, dsn: str, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    dead = fleet.there["shard-1"]

    async def is_away() -> None:
        raise FleetUnavailable("it does not answer")

    dead.dies.set()
    await eventually(lambda: bool(reconciler._crews[0]._processes.gone()))
    with monkeypatch.context() as away:
        away.setattr(dead, "kill", is_away)
        with pytest.raises(FleetUnavailable):
            await reconciler.turn()
    reconciler._ask_again_s = 0.0

    await reconciler.turn()

    assert fleet.killed == [dead]
    assert list(fleet.there) == ["shard-1", "shard-2", "shard-3"]


async def test_an_actor_that_the_fleet_can_not_kill_delays_neither_a_new_keeper_nor_other_kills(
    session: Session, dsn: str, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    first, second = fleet.there["shard-1"], fleet.there["shard-2"]

    async def is_away() -> None:
        raise FleetUnavailable("it does not answer")

    monkeypatch.setattr(first, "kill", is_away)
    for number, actor in enumerate((first, second), start=1):
        actor.dies.set()
        await eventually(lambda: bool(reconciler._crews[0]._processes.gone()))
        with pytest.raises(FleetUnavailable):
            await reconciler.turn()
        reconciler._ask_again_s = 0.0
        if number == 1:
            assert list(fleet.there) == ["shard-1", "shard-2", "shard-3"]
    with pytest.raises(FleetUnavailable):
        await reconciler.turn()

    assert fleet.killed == [second]


async def test_a_draining_keeper_is_drained_once_and_is_supervised_until_its_end(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = await third_drains(session, dsn, fleet)
    processes = reconciler._crews[0]._processes

    await reconciler.turn()
    await reconciler.turn()

    assert third(fleet).drained == 1
    assert await living(session) == [11, 12, 13]
    third(fleet).may_drain.set()
    assert await fleet.drained() == [0, 0, 1]
    assert fleet.killed == [third(fleet)]
    assert processes.names() == {"shard-1", "shard-2"}


async def test_a_draining_keeper_with_an_ended_holder_does_not_count_as_a_starting_keeper(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = await third_drains(session, dsn, fleet)
    await query(dsn, "update shardclock.holders set ended_at = now(), ended_why = 'drained' where holder = 13")
    # The start is older than the time limit of a start.
    reconciler._crews[0]._processes._processes["shard-3"].since -= 60.0
    third(fleet).dies.set()

    await reconciler.turn()
    await query(dsn, SCALE.format(3))
    await reconciler.turn()

    assert not fleet.killed, "its drain ends it"
    assert list(fleet.there) == ["shard-1", "shard-2", "shard-3", "shard-4"], "a new one comes in its place"


async def test_a_keeper_that_exceeds_the_time_limit_of_its_drain_is_killed(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = await third_drains(session, dsn, fleet, drain_s=0.05)

    await fleet.drained()

    assert fleet.killed == [third(fleet)]
    await reconciler.turn()
    assert await living(session) == [11, 12], "its holder is no longer supervised"


async def test_the_next_turn_repeats_a_kill_without_an_answer(session: Session, dsn: str, fleet: FakeFleet) -> None:
    reconciler = await third_drains(session, dsn, fleet)
    fleet.is_away = True
    third(fleet).may_drain.set()
    await fleet.drained()
    assert not fleet.killed
    fleet.is_away = False

    await reconciler.turn()

    assert fleet.killed == [third(fleet)]


async def test_a_stop_waits_for_a_keeper_that_drains(session: Session, dsn: str, fleet: FakeFleet) -> None:
    reconciler = await third_drains(session, dsn, fleet)
    reconciler.stop()
    running = asyncio.create_task(reconciler.run())
    await eventually(lambda: fleet.there["shard-1"].drained == fleet.there["shard-2"].drained == 1)
    assert not running.done()

    third(fleet).may_drain.set()
    async with asyncio.timeout(TURN_S):
        await running

    assert await living(session) == []
    assert third(fleet).drained == 1
    assert len(fleet.killed) == 3


async def test_a_superseded_coordinator_cancels_its_drains(session: Session, dsn: str, fleet: FakeFleet) -> None:
    reconciler = await third_drains(session, dsn, fleet)
    await ask(session, 2, BLUE, fresh=True)

    async with asyncio.timeout(TURN_S):
        await reconciler.run()
    third(fleet).may_drain.set()

    assert await fleet.drained() == [0, 0, 1]
    assert not fleet.killed, "they are its successor's"
