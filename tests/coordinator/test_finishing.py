"""The coordinator gives a surplus worker a limited time to finish its calls before a drain. A shard gets no time."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from shardclock_server.coordinator.crew import Crew
from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import SHARD, WORKER, Incarnation, beat, register_holder
from shardclock_server.sql.cluster.leadership import Leadership
from shardclock_server.sql.session import Session
from tests.support.fake_fleet import BLUE, FakeFleet, ask, kept
from tests.support.waiting import eventually

STAYS, GOES = 11, 12


@dataclass
class Two:
    """A crew of two serving keepers; if only one is wanted, `GOES` is removed."""

    crew: Crew
    fleet: FakeFleet
    session: Session
    leadership: Leadership

    async def turn(self, wanted: int, *, held: int) -> list[int]:
        """Make one turn while `GOES` holds `held` deliveries, and return how often each keeper was drained."""
        await beat(self.session, STAYS, held=0)
        await beat(self.session, GOES, held=held)
        await self.crew.turn(self.leadership, wanted, await HoldersSeen.read(self.session))
        return await self.fleet.drained()


async def two(session: Session, role: str, *, finish_s: float = 30.0) -> Two:
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
    it = Two(crew, fleet, session, await ask(session, 1, BLUE))
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
    it.crew._processes._finishing["worker-2"] -= 29.0  # one second of its time limit is left

    assert await it.turn(2, held=3) == [0, 0]
    assert await kept(session) == {STAYS: 0, GOES: 1}

    assert await it.turn(1, held=3) == [0, 0]
    it.crew._processes._finishing["worker-2"] -= 29.0
    assert await it.turn(1, held=3) == [0, 0], "its time began anew"


async def test_a_retired_shard_ends_at_once_despite_its_leases(session: Session) -> None:
    it = await two(session, SHARD)

    assert await it.turn(1, held=3) == [0, 1]
