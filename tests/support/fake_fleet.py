"""Run reconcilers on a fake fleet that only records its calls, and act as the holders of the fleet's actors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from shardclock_server.coordinator.fleet import LOCAL, FleetUnavailable, KeeperHandle
from shardclock_server.coordinator.heartbeat_monitor import UNSEEN_S
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, beat, list_holders, register_holder
from shardclock_server.sql.cluster.leadership import Leadership, lead
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.roles import as_role
from tests.support.waiting import eventually

LEASE_S = 60.0
BLUE, GREEN = "blue", "green"


async def ask(session: Session, leader: int, cluster_id: str, *, fresh: bool = False) -> Leadership:
    return await lead(session, leader, cluster_id=cluster_id, lease_s=LEASE_S, fresh=fresh)


def incarnation(holder: int, *, cluster_id: str = BLUE, actor_name: str = "shard-1") -> Incarnation:
    return Incarnation(holder, SHARD, cluster_id, actor_name, node_id="node", host="here", pid=1)


class FakeActor:
    """A fake actor that records drains and kills; a watcher waits for its death. Without `may_drain`, a drain hangs."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.drained = 0
        self.may_drain = asyncio.Event()
        self.may_drain.set()
        self.dies = asyncio.Event()
        self._fleet = fleet

    async def watch(self) -> str:
        await self.dies.wait()
        return "RuntimeError"

    async def drain(self) -> None:
        self.drained += 1
        await self.may_drain.wait()

    async def kill(self) -> None:
        self._fleet.answer()
        self._fleet.killed.append(self)


class FakeFleet:
    """A fake fleet: it records spawns and kills; a test decides when an actor registers."""

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

    async def drained(self) -> list[int]:
        """Wait until the begun drains are over, and return how often each actor was drained."""
        drains = [task for task in asyncio.all_tasks() if task.get_name().startswith("drain ")]
        await asyncio.gather(*drains)
        return [actor.drained for actor in self.there.values()]

    async def ask_for_nodes(self, shards: int) -> None:
        self.asked_for.append(shards)

    def answer(self) -> None:
        if self.is_away:
            raise FleetUnavailable("it does not answer")


def reconciler_of(
    dsn: str,
    fleet: FakeFleet,
    leader: int = 1,
    cluster_id: str = BLUE,
    beside: str | None = None,
    *,
    node_id: str = "node",
    **more: float,
) -> Reconciler:
    settings = CoordinatorSettings(leader_lease_s=LEASE_S, **more)
    fleet.reconcilers.append(
        Reconciler(
            settings,
            dsn=as_role(dsn, "shard"),
            cluster_id=cluster_id,
            incarnation=leader,
            fleets=[fleet],
            node_id=node_id,
            beside=beside,
        )
    )
    return fleet.reconcilers[-1]


async def serving(session: Session, reconciler: Reconciler) -> list[int]:
    """Register the two actors of the first turn, and assign their slots in the next turn."""
    await reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await register_holder(session, incarnation(12, actor_name="shard-2"))
    await reconciler.turn()
    found = await list_holders(session)
    assert [(holder.part, holder.part_count) for holder in found] == [(0, 2), (1, 2)]
    return [holder.holder for holder in found]


async def kept(session: Session) -> dict[int, int | None]:
    return {holder.holder: holder.part for holder in await list_holders(session)}


async def living(session: Session) -> list[int]:
    return sorted(holder.holder for holder in await list_holders(session))


async def until_left(
    session: Session,
    turn: Callable[[], Awaitable[None]],
    clock: Clock,
    *holders: int,
    heard: bool = True,
) -> None:
    """Take turns, a second apart by the test's clock, until only these holders live; the others send no heartbeats."""

    async def are_left() -> bool:
        clock.now_s += UNSEEN_S
        for holder in holders if heard else ():
            await beat(session, holder, held=0)
        await turn()
        return await living(session) == [*holders]

    await eventually(are_left)
