"""The Ray actor that starts and stops the coordinator's reconcile loop. The actor makes no decisions."""

import asyncio
from collections.abc import Sequence

import ray

from shardclock_server.coordinator.ray_fleet import RayFleet, Spawner
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.dsn import Dsn


class Coordinator:
    """Coordinate one cluster; a restarted actor continues from the state in Postgres and Ray.

    `home` is the node of the process that created the actor. If the actor dies, Ray restarts it on this node, unless
    the node is lost.
    """

    def __init__(
        self, settings: CoordinatorSettings, spawners: Sequence[Spawner], cluster_id: str, home: str, *, dsn: Dsn
    ) -> None:
        self._home = home
        self._reconciler = Reconciler(
            settings,
            dsn=dsn,
            cluster_id=cluster_id,
            node_id=home,
            fleets=[RayFleet(spawner) for spawner in spawners],
        )
        # The constructor of an async actor runs in the event loop, so a restarted actor begins to work by itself.
        self._work = asyncio.get_event_loop().create_task(self._reconciler.run(), name="coordinator")

    async def ping(self) -> bool:
        """Return whether the coordinator's loop runs, and whether its shards can be started.

        errors:  if the loop has ended: the error that ended it
        """
        if self._work.done():
            self._work.result()
        return not self._work.done() and not self._reconciler.is_stuck

    async def is_away(self) -> bool:
        """Return whether the actor runs on another node than `home`."""
        return bool(ray.get_runtime_context().get_node_id() != self._home)

    async def stop(self, *, is_orphan: bool) -> None:
        """Give up the lead and drain all keepers.

        If the cluster is an orphan (its `up` was killed), its keepers first wait for the next `up`.
        """
        self._reconciler.stop(is_orphan=is_orphan)
        await self._work
