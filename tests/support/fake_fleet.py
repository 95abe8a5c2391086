"""Run reconcilers on a fleet that only records, and play the holders whose actors it would have started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from shardclock_server.coordinator.fleet import LOCAL, FleetUnavailable, KeeperHandle
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, list_holders, register_holder
from shardclock_server.sql.cluster.leadership import Leadership, lead
from shardclock_server.sql.session import Session
from tests.support.roles import as_role

LEASE_S = 60.0
BLUE, GREEN = "blue", "green"


async def ask(session: Session, leader: int, cluster_id: str, *, fresh: bool = False) -> Leadership:
    return await lead(session, leader, cluster_id=cluster_id, lease_s=LEASE_S, fresh=fresh)


def incarnation(holder: int, *, cluster_id: str = BLUE, actor_name: str = "shard-1") -> Incarnation:
    return Incarnation(holder, SHARD, cluster_id, actor_name, node_id="node", host="here", pid=1)


class FakeActor:
    """Records that it was drained and killed, and is watched until it dies."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.drained = 0
        self.dies = asyncio.Event()
        self._fleet = fleet

    async def watch(self) -> str:
        await self.dies.wait()
        return "RuntimeError"

    async def drain(self) -> None:
        self.drained += 1

    async def kill(self) -> None:
        self._fleet.answer()
        self._fleet.killed.append(self)


class FakeFleet:
    """Records what was spawned and killed; an actor registers when the test says so."""

    def __init__(self, names: str = "shard") -> None:
        self.role, self.kind = SHARD, LOCAL
        self.names = names
        self.there: dict[str, FakeActor] = {}
        self.killed: list[FakeActor] = []
        self.placed: list[str] = []
        self.asked_for: list[int] = []
        self.reconcilers: list[Reconciler] = []
        self.is_away = False

    async def nodes(self) -> Sequence[str]:
        self.answer()
        return ["node"]

    async def found(self) -> Mapping[str, KeeperHandle]:
        self.answer()
        return dict(self.there)

    async def spawn(self, node_id: str) -> tuple[str, KeeperHandle]:
        actor_name, actor = f"{self.names}-{len(self.there) + 1}", FakeActor(self)
        self.there[actor_name] = actor
        self.placed.append(node_id)
        return actor_name, actor

    async def ask_for_nodes(self, shards: int) -> None:
        self.asked_for.append(shards)

    def answer(self) -> None:
        if self.is_away:
            raise FleetUnavailable("it does not answer")


def reconciler_of(dsn: str, fleet: FakeFleet, leader: int = 1, cluster_id: str = BLUE, **more: float) -> Reconciler:
    settings = CoordinatorSettings(leader_lease_s=LEASE_S, **more)
    fleet.reconcilers.append(
        Reconciler(settings, dsn=as_role(dsn, "shard"), cluster_id=cluster_id, incarnation=leader, fleets=[fleet])
    )
    return fleet.reconcilers[-1]


async def serving(session: Session, reconciler: Reconciler) -> list[int]:
    """Let the two actors that a first turn spawns register, and the next turn assign them."""
    await reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await register_holder(session, incarnation(12, actor_name="shard-2"))
    await reconciler.turn()
    found = await list_holders(session)
    assert [(holder.part, holder.part_count) for holder in found] == [(0, 2), (1, 2)]
    return [holder.holder for holder in found]


async def kept(session: Session) -> dict[int, int | None]:
    """Say which shard each living holder keeps."""
    return {holder.holder: holder.part for holder in await list_holders(session)}


async def living(session: Session) -> list[int]:
    return sorted(holder.holder for holder in await list_holders(session))
