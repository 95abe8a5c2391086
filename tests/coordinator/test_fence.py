"""A coordinator that froze while another coordinator took the lead ends no holder, because its term is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from unittest import mock

import pytest

from shardclock_server.coordinator import holders_seen
from shardclock_server.coordinator import reconciler as coordinator
from shardclock_server.sql.cluster.holders import Holder, end_holders, list_holders, register_holder
from shardclock_server.sql.cluster.leadership import lead, resign
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, HolderClient, add_holder, ends, waits
from tests.support.fake_fleet import BLUE, GREEN, LEASE_S, FakeFleet, incarnation, reconciler_of, serving

LED, SUCCESSOR, YOUNG = 1, 2, 77


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    async with Session(dsn, application="test", timeout_s=BOUND_S) as opened:
        yield opened


async def living(session: Session) -> set[int]:
    return {holder.holder for holder in await list_holders(session)}


async def follow(session: Session) -> None:
    assert (await lead(session, SUCCESSOR, cluster_id=BLUE, lease_s=LEASE_S, fresh=True)).leads
    await register_holder(session, incarnation(YOUNG, actor_name="shard-of-the-successor"))


async def test_a_coordinator_that_was_frozen_before_it_ends_holders_does_not_end_shards_of_its_successor(
    session: Session, dsn: str
) -> None:
    frozen = reconciler_of(dsn, FakeFleet(), leader=LED)
    old = await serving(session, frozen)

    async def thaw_late(its_session: Session) -> list[Holder]:
        await follow(session)
        return await list_holders(its_session)

    with mock.patch.object(holders_seen, "list_holders", thaw_late):
        await frozen.turn()

    assert await living(session) == {YOUNG, *old}


async def test_a_coordinator_that_has_resigned_does_not_end_its_successors_shards(session: Session, dsn: str) -> None:
    old = reconciler_of(dsn, FakeFleet(), leader=LED)
    await serving(session, old)

    async def is_followed(its_session: Session, leader: int) -> None:
        await resign(its_session, leader)
        await follow(session)

    old.stop()
    with mock.patch.object(coordinator, "resign", is_followed):
        await old.run()

    assert await living(session) == {YOUNG}


async def test_a_coordinator_that_was_frozen_until_its_stop_finds_a_successor_and_changes_nothing(
    session: Session, dsn: str
) -> None:
    fleet = FakeFleet()
    frozen = reconciler_of(dsn, fleet, leader=LED)
    old = await serving(session, frozen)
    await follow(session)

    frozen.stop()
    await frozen.run()

    assert await living(session) == {YOUNG, *old}
    assert not any(actor.drained for actor in fleet.there.values())


async def test_a_coordinator_that_was_frozen_during_its_stop_does_not_end_shards_of_its_successor(
    session: Session, dsn: str
) -> None:
    frozen = reconciler_of(dsn, FakeFleet(), leader=LED)
    old = await serving(session, frozen)

    async def thaw_late(its_session: Session) -> list[Holder]:
        there = await list_holders(its_session)
        await follow(session)
        return there

    frozen.stop()
    with mock.patch.object(coordinator, "list_holders", thaw_late):
        await frozen.run()

    assert await living(session) == {YOUNG, *old}


async def test_a_stopping_coordinator_ends_the_known_holders_and_the_holders_that_register_later(
    session: Session, dsn: str
) -> None:
    """A coordinator may find holders without an actor in its fleet, for example shards of a Ray without a head."""
    old = reconciler_of(dsn, FakeFleet(), leader=LED)
    await old.turn()
    await register_holder(session, incarnation(YOUNG, actor_name="of no coordinator"))

    async def registers_late(its_session: Session, leader: int) -> None:
        await resign(its_session, leader)
        await register_holder(session, incarnation(11, actor_name="shard-1"))

    old.stop()
    with mock.patch.object(coordinator, "resign", registers_late):
        await old.run()

    assert await living(session) == set()


@pytest.mark.parametrize(("term", "ended"), [(1, [7]), (0, []), (2, []), (None, [7])])
async def test_holders_are_ended_only_in_the_current_term_or_without_a_term(
    session: Session, dsn: str, term: int | None, ended: list[int]
) -> None:
    await add_holder(dsn, 7)
    await lead(session, LED, cluster_id=BLUE, lease_s=LEASE_S, fresh=True)

    assert [it.holder for it in await end_holders(session, [7], why="dead", term=term)] == ended
    assert await living(session) == {7} - set(ended)


async def test_no_term_begins_while_holders_are_ended_and_ending_waits_for_a_new_term(
    session: Session, dsn: str
) -> None:
    await add_holder(dsn, 7)
    await lead(session, LED, cluster_id=BLUE, lease_s=LEASE_S, fresh=True)
    async with HolderClient(dsn, role="shard") as successor, HolderClient(dsn, role="shard") as frozen:
        await successor.begin()
        assert (await lead(successor.session, SUCCESSOR, cluster_id=BLUE, lease_s=LEASE_S, fresh=True)).leads
        ending = await waits(frozen, end_holders(frozen.session, [7], why="dead", term=1))
        await successor.commit()

        assert await ends(ending) == []

    assert await living(session) == {7}


async def test_a_stand_by_coordinator_ends_its_own_dead_shards_in_the_term_of_the_leader(
    session: Session, dsn: str
) -> None:
    await lead(session, SUCCESSOR, cluster_id=GREEN, lease_s=LEASE_S, fresh=True)
    fleet = FakeFleet()
    standing_by = reconciler_of(dsn, fleet, leader=LED)
    await standing_by.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await register_holder(session, incarnation(YOUNG, actor_name="of no coordinator"))

    await standing_by.turn()

    assert await living(session) == {11}
