"""Other keepers start after the first shards; a surplus worker finishes its calls before its drain."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from shardclock_server.coordinator.crew import Crew
from shardclock_server.coordinator.fleet import RAY
from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.keeper_processes import SOON_S
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import SHARD, WORKER, Incarnation, beat, register_holder
from shardclock_server.sql.cluster.leadership import Leadership
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.factories import query, value
from tests.support.fake_fleet import BLUE, LEASE_S, FakeFleet, ask, incarnation, kept
from tests.support.roles import as_role
from tests.support.waiting import eventually

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


async def test_the_partitions_of_the_log_wait_until_the_first_shards_have_their_slots(
    dsn: str, session: Session, fleets: Fleets
) -> None:
    missing = f"command_log_{datetime.now(UTC) + timedelta(days=1):%Y%m%d}"
    await query(dsn, f"drop table shardclock.{missing}")
    await fleets.reconciler.turn()
    assert not await value(dsn, "select to_regclass('shardclock.' || $1)::text", missing)

    for number in (1, 2):
        await register_holder(session, incarnation(10 + number, actor_name=f"shard-{number}"))
    await fleets.reconciler.turn()

    assert await kept(session) == {11: 0, 12: 1}
    assert await value(dsn, "select to_regclass('shardclock.' || $1)::text", missing), "in the same turn"


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


async def test_an_actor_of_ray_does_not_wait_for_the_first_shards(fleets: Fleets) -> None:
    fleets.shards.kind = fleets.workers.kind = RAY

    await fleets.reconciler.turn()

    assert list(fleets.workers.there) == ["worker-1"], "an actor takes a second or more to start"


STAYS, GOES = 11, 12


@dataclass
class CrewOfTwo:
    """A crew of two keepers with slots; if only one keeper is wanted, `GOES` is retired."""

    crew: Crew
    fleet: FakeFleet
    session: Session
    leadership: Leadership

    async def turn(self, wanted: int, *, held: int) -> list[int]:
        """Run one turn while `GOES` leases `held` deliveries; return how often each keeper was drained."""
        await beat(self.session, STAYS, held=0)
        await beat(self.session, GOES, held=held)
        await self.crew.turn(self.leadership, wanted, await HoldersSeen.read(self.session))
        return await self.fleet.drained()


async def two(session: Session, role: str, *, finish_s: float = 30.0) -> CrewOfTwo:
    fleet = FakeFleet(role)
    fleet.role = role
    crew = Crew(
        fleet,
        CoordinatorSettings(finish_s=finish_s),
        session,
        cluster_id=BLUE,
        changed=lambda: None,
        log=structlog.get_logger(),
    )
    it = CrewOfTwo(crew, fleet, session, await ask(session, 1, BLUE))
    await crew.turn(it.leadership, 2, await HoldersSeen.read(session))
    for number, holder in enumerate((STAYS, GOES), start=1):
        name = f"{role}-{number}"
        await register_holder(session, Incarnation(holder, role, BLUE, name, node_id="node", host="here", pid=1))
    await crew.turn(it.leadership, 2, await HoldersSeen.read(session))
    assert await kept(session) == {STAYS: 0, GOES: 1}
    return it


async def test_a_retired_worker_gets_no_deliveries_and_ends_after_its_calls(session: Session) -> None:
    it = await two(session, WORKER)

    assert await it.turn(1, held=3) == [0, 0]
    assert await kept(session) == {STAYS: 0, GOES: None}
    assert await it.turn(1, held=1) == [0, 0]

    assert await it.turn(1, held=0) == [0, 1]


async def test_a_retired_worker_with_long_calls_ends_at_its_time_limit(session: Session) -> None:
    it = await two(session, WORKER, finish_s=0.3)
    assert await it.turn(1, held=3) == [0, 0]

    async def has_gone() -> bool:
        return await it.turn(1, held=3) == [0, 1]

    await eventually(has_gone)


async def test_a_worker_that_is_needed_again_gets_the_full_time_limit_at_its_next_retirement(
    session: Session,
) -> None:
    it = await two(session, WORKER)
    assert await it.turn(1, held=3) == [0, 0]
    it.crew._processes._finishing["worker-2"] -= 29.0  # one second is left of the time limit for its calls

    assert await it.turn(2, held=3) == [0, 0]
    assert await kept(session) == {STAYS: 0, GOES: 1}

    assert await it.turn(1, held=3) == [0, 0]
    it.crew._processes._finishing["worker-2"] -= 29.0
    assert await it.turn(1, held=3) == [0, 0], "its time began anew"


async def test_a_retired_shard_ends_immediately_although_it_has_leases(session: Session) -> None:
    it = await two(session, SHARD)

    assert await it.turn(1, held=3) == [0, 1]
