"""The lead returns from the local cluster to Ray.

A working Ray cluster keeps the lead; the remaining shards of a lost Ray cluster never get the lead back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shardclock_server.cluster.hosts import STAND_BY_MAX, stand_by_of
from shardclock_server.coordinator import stand_by
from shardclock_server.coordinator.lead_lapses import Lapses
from shardclock_server.coordinator.reconciler import Reconciler, Superseded
from shardclock_server.sql.cluster.holders import beat
from shardclock_server.sql.cluster.leadership import hand_over, read_leading
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import query, value
from tests.support.fake_fleet import FakeFleet, kept, reconciler_of
from tests.support.two_clusters import LOCAL, NEXT_NODE, NODE, RAY, TwoClusters

ENDED = "update shardclock.holders set ended_at = now(), ended_why = 'dead' where holder = 21"
LAPSED = "update shardclock.leadership set lease_until = now() - interval '2.1 s'"
SUSPENDED = "update shardclock.holders set suspended_at = now(), part = null, part_count = null where holder = 21"


@pytest.fixture
async def next_ray(two: TwoClusters, dsn: str) -> AsyncIterator[Reconciler]:
    """Lose Ray, and start the next Ray with shard 22; the local host is not informed of either event."""
    await two.ray_serves()
    await query(dsn, ENDED)
    fleet = FakeFleet("next")
    reconciler = reconciler_of(dsn, fleet, 3, RAY, node_id=NEXT_NODE)
    await reconciler.turn()
    await two.register(22, RAY, "next-1", NEXT_NODE)
    await reconciler.turn()
    assert await kept(two.session) == {22: 0}
    yield reconciler
    await reconciler._close()


async def test_a_shard_that_was_suspended_when_its_coordinator_lost_the_lead_gets_it_back(two: TwoClusters) -> None:
    await two.ray_serves()
    await query(two.dsn, SUSPENDED)
    await query(two.dsn, "update shardclock.beats set seen_at = seen_at - interval '3 s' where holder = 21")
    await query(two.dsn, LAPSED)
    await two.local.turn()
    assert await two.leading() == LOCAL

    await beat(two.session, 21, held=0)
    await two.local.turn()
    await two.ray.turn()

    assert await two.leading() == RAY
    assert await value(two.dsn, "select suspended_at is null from shardclock.holders where holder = 21")
    assert (await kept(two.session))[21] == 0


async def test_a_shard_of_a_lost_ray_cluster_that_registers_late_does_not_get_the_lead(two: TwoClusters) -> None:
    await two.local_serves()
    await two.ray.turn()
    two.local.lead_instead()
    await two.local.turn()

    await two.register(21, RAY, "ray-1")
    await two.local.turn()

    assert await two.leading() == LOCAL


async def test_a_host_of_local_keepers_keeps_the_lead_until_it_learns_that_ray_is_ready(two: TwoClusters) -> None:
    await two.ray_serves()
    fleet = FakeFleet("again")
    again = reconciler_of(two.dsn, fleet, 4, LOCAL, beside=RAY)
    await query(two.dsn, LAPSED)
    await again.turn()
    assert await two.leading() == LOCAL

    again.lead_until_ready(NODE)
    await again.turn()

    assert await two.leading() == RAY
    await again._close()


@pytest.mark.usefixtures("next_ray")
async def test_a_loss_that_is_learned_together_with_the_next_ray_cluster_has_no_effect(two: TwoClusters) -> None:
    before = await read_leading(two.session)
    two.local.lead_instead()
    two.local.lead_until_ready(NEXT_NODE)

    await two.local.turn()

    assert await read_leading(two.session) == before, "the same term"
    assert await kept(two.session) == {22: 0}


@pytest.mark.parametrize("is_answered", [True, False])
async def test_handling_a_loss_of_ray_ends_no_shards_of_the_next_ray_cluster(
    two: TwoClusters,
    next_ray: Reconciler,
    monkeypatch: pytest.MonkeyPatch,
    is_answered: bool,
) -> None:
    before = await read_leading(two.session)
    two.local.lead_instead()
    with monkeypatch.context() as patched:

        async def late(*args: object, **more: object) -> bool:
            two.local.lead_until_ready(NEXT_NODE)
            patched.undo()
            if not is_answered:
                raise StoreUnavailable("no answer")
            return await hand_over(*args, **more)  # type: ignore[arg-type]

        patched.setattr(stand_by, "hand_over", late)
        if is_answered:
            await two.local.turn()
        else:
            with pytest.raises(StoreUnavailable):
                await two.local.turn()
            await two.local.turn()
            assert await read_leading(two.session) == before, "the same term"

    assert await two.leading() == RAY, "it kept the lead, or got it back in the same turn"
    await next_ray.turn()
    assert await two.leading() == RAY
    assert (await kept(two.session))[22] == 0
    assert two.local._stand_by is not None
    assert two.local._stand_by.orphans == frozenset()


@pytest.mark.parametrize("registers", [True, False])
async def test_the_user_gets_one_message_that_keepers_of_ray_are_missing(
    two: TwoClusters, monkeypatch: pytest.MonkeyPatch, registers: bool
) -> None:
    told: list[str] = []
    monkeypatch.setattr(two.local, "_tell", told.append)
    await two.local_serves()
    await two.ray.turn()
    if registers:
        await two.register(21, RAY, "ray-1")
    monkeypatch.setattr(stand_by, "OVERDUE_S", 0.0)
    two.local.lead_until_ready(NODE)

    for _ in range(2):
        await two.local.turn()

    assert told.count(stand_by.MISSING) == (0 if registers else 1)


@pytest.mark.parametrize("name", ["a" * 57 + "-local", "a" * 37, "a" * 38, "prod", "a"])
def test_the_name_of_a_stand_by_cluster_can_not_be_the_name_of_a_users_cluster(name: str) -> None:
    assert stand_by_of(name) not in (name, stand_by_of(f"{name}-"))
    assert "+" in stand_by_of(name)
    assert len(stand_by_of(name)) <= STAND_BY_MAX
    assert stand_by_of(name[:63]) != stand_by_of(name[:62] + "b")


async def test_a_coordinator_of_a_lost_ray_cluster_that_wakes_does_not_get_the_lead_of_the_next_ray_cluster(
    two: TwoClusters,
) -> None:
    # Given that the coordinator of a Ray is frozen, and the next Ray is offered the lead
    await two.ray_serves()
    two.local.lead_instead()
    await two.local.turn()
    next_ray = reconciler_of(two.dsn, FakeFleet("next"), 3, RAY, node_id=NEXT_NODE)
    await next_ray.turn()
    await two.register(22, RAY, "next-1", NEXT_NODE)
    two.local.lead_until_ready(NEXT_NODE)
    await two.local.turn()
    assert await two.leading() == RAY

    # When the frozen coordinator wakes before the next Ray's coordinator takes the lead, then the old coordinator ends
    with pytest.raises(Superseded):
        await two.ray.turn()
    await next_ray.turn()

    # Then the next Ray's coordinator leads, and its keeper serves
    assert next_ray.leads is True
    assert (await kept(two.session))[22] == 0
    await next_ray._close()


async def test_a_shard_of_a_lost_ray_cluster_that_registers_after_the_next_ray_cluster_is_ready_does_not_get_the_lead(
    two: TwoClusters,
) -> None:
    await two.local_serves()
    two.local.lead_instead()
    await two.local.turn()
    two.local.lead_until_ready(NEXT_NODE)

    await two.register(21, RAY, "ray-1", NODE)
    await two.local.turn()

    assert await two.leading() == LOCAL


async def test_a_stopping_ray_cluster_serves_until_local_keepers_have_its_slots(two: TwoClusters) -> None:
    await two.ray_serves()
    two.ray.stop()
    ending = asyncio.create_task(two.ray.run())
    two.local.lead_instead()

    await two.local.turn()
    assert await two.leading() == LOCAL
    assert await kept(two.session) == {21: 0}
    assert await two.ray_fleet.drained() == [0], "it fires on"
    assert not ending.done()

    await two.register(12, LOCAL, "local-2")
    await two.local.turn()
    await asyncio.wait_for(ending, 10)
    assert await kept(two.session) == {12: 0}


async def test_after_repeated_lapses_local_keepers_keep_the_lead_and_up_reports_this(
    two: TwoClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(two.local, "_tell", told.append)
    await two.ray_serves()
    assert told == [stand_by.LOCAL_LEADS, stand_by.RAY_LEADS]
    told.clear()

    # When Ray's coordinator hangs once, it gets a second offer of the lead, and meanwhile Ray's keepers fire timers
    await query(two.dsn, LAPSED)
    await two.local.turn()
    assert await two.leading() == RAY
    assert told == []
    assert list(two.local_fleet.there) == ["local-1"]

    # When Ray's coordinator does not take the lead, local keepers fire timers
    await query(two.dsn, LAPSED)
    for _ in range(2):
        await two.local.turn()
        assert await two.leading() == LOCAL
    assert told == [stand_by.LOCAL_LEADS]
    assert list(two.local_fleet.there) == ["local-1", "local-2"]

    # When the pause is over, the local coordinator offers the lead to Ray again
    with monkeypatch.context() as patched:
        patched.setattr(Lapses, "may_give", lambda *_: True)
        await two.local.turn()
    assert await two.leading() == RAY
