"""Run a cluster of local keepers beside the cluster of Ray, on fake fleets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.sql.cluster.holders import register_holder
from shardclock_server.sql.cluster.leadership import read_leading
from shardclock_server.sql.session import Session
from tests.support.factories import query
from tests.support.fake_fleet import FakeFleet, incarnation, kept

RAY, LOCAL = "blue", "blue+local"
NODE, NEXT_NODE = "node", "next-node"  # a node of Ray, and a node of the next Ray
WANT_ONE = "update shardclock.scale set wanted = 1"


@dataclass
class TwoClusters:
    """A local cluster and the cluster of Ray beside it, on one database, with one shard each."""

    session: Session
    dsn: str
    local: Reconciler
    ray: Reconciler
    local_fleet: FakeFleet
    ray_fleet: FakeFleet

    async def register(self, holder: int, cluster_id: str, actor_name: str, node_id: str = NODE) -> None:
        started = incarnation(holder, cluster_id=cluster_id, actor_name=actor_name)
        await register_holder(self.session, replace(started, node_id=node_id))

    async def local_serves(self) -> None:
        await self.local.turn()
        await self.register(11, LOCAL, "local-1")
        await self.local.turn()
        assert await kept(self.session) == {11: 0}

    async def ray_serves(self) -> None:
        """Register Ray's shard beside the local shard, and give Ray the lead and the slots."""
        await self.local_serves()
        await self.ray.turn()
        await self.register(21, RAY, "ray-1")
        await self.local.turn()
        await self.ray.turn()
        assert await kept(self.session) == {11: None, 21: 0}
        await self.local.turn()
        assert await self.local_fleet.drained() == [1]
        await query(self.dsn, "update shardclock.holders set ended_at = now(), ended_why = 'drained' where holder = 11")

    async def leading(self) -> str | None:
        """Return the name of the cluster that leads, or that has just got the lead."""
        found = await read_leading(self.session)
        return found[0] if found else None
