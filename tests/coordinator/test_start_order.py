"""Only local shards use the processors until they can serve: other keepers start after the shards."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.coordinator.fleet import RAY
from shardclock_server.coordinator.keeper_processes import SOON_S
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import WORKER, register_holder
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.factories import query
from tests.support.fake_fleet import BLUE, LEASE_S, FakeFleet, incarnation, kept
from tests.support.roles import as_role

WANT_A_WORKER = """
    with target as (
        insert into shardclock.handlers (target, reference, policy) values ('orders.late', 'orders:late', '{}')
    )
    update shardclock.scale set wanted = case role when 'worker' then 1 else 2 end
"""


class Fleets:
    """A fleet of shards and a fleet of workers, and a coordinator of both."""

    def __init__(self, dsn: str) -> None:
        self.shards, self.workers = FakeFleet(), FakeFleet("worker")
        self.workers.role = WORKER
        self.reconciler = Reconciler(
            CoordinatorSettings(leader_lease_s=LEASE_S),
            dsn=as_role(dsn, "shard"),
            cluster_id=BLUE,
            incarnation=1,
            fleets=[self.shards, self.workers],
        )


@pytest.fixture
async def fleets(dsn: str) -> AsyncIterator[Fleets]:
    await query(dsn, WANT_A_WORKER)
    fleets = Fleets(dsn)
    yield fleets
    await fleets.reconciler._close()


async def test_a_local_worker_starts_when_the_first_shards_have_their_slots(session: Session, fleets: Fleets) -> None:
    await fleets.reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await fleets.reconciler.turn()
    assert list(fleets.shards.there) == ["shard-1", "shard-2"]
    assert not fleets.workers.there, "the second shard is still starting"

    await register_holder(session, incarnation(12, actor_name="shard-2"))
    await fleets.reconciler.turn()

    assert await kept(session) == {11: 0, 12: 1}
    assert list(fleets.workers.there) == ["worker-1"], "in the same turn"


async def test_a_worker_waits_for_shards_that_do_not_start_for_two_seconds(fleets: Fleets, clock: Clock) -> None:
    await fleets.reconciler.turn()
    assert not fleets.workers.there

    clock.now_s += SOON_S + 0.1
    await fleets.reconciler.turn()

    assert list(fleets.workers.there) == ["worker-1"]


async def test_the_replacement_of_a_dead_shard_delays_no_worker(session: Session, fleets: Fleets, clock: Clock) -> None:
    await fleets.reconciler.turn()
    for holder in (11, 12):
        await register_holder(session, incarnation(holder, actor_name=f"shard-{holder - 10}"))
    await fleets.reconciler.turn()
    clock.now_s += SOON_S + 0.1
    fleets.reconciler._crews[0]._processes.give_up(["shard-2"], "died")
    fleets.reconciler._crews[1]._processes.give_up(["worker-1"], "died")

    await fleets.reconciler.turn()

    assert list(fleets.shards.there)[2:] == ["shard-3"]
    assert list(fleets.workers.there)[1:] == ["worker-2"]


async def test_an_actor_of_ray_starts_beside_the_first_shards(fleets: Fleets) -> None:
    fleets.shards.kind = fleets.workers.kind = RAY

    await fleets.reconciler.turn()

    assert list(fleets.workers.there) == ["worker-1"], "an actor takes a second or more to start"
