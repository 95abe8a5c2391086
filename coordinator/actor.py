"""The Ray actor around the coordinator: it starts the reconcile loop and stops it. It decides nothing."""

import asyncio
from collections.abc import Sequence

import ray

from shardclock_server.coordinator.ray_fleet import RayFleet, Spawner
from shardclock_server.coordinator.reconciler import Reconciler, new_incarnation
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.dsn import Dsn


class CoordinatorActor:
    """Coordinate one cluster; when Ray restarts it, it carries on from what Postgres and Ray know.

    `home` is the node of the process that made it. Ray starts it there again, unless that node is gone.
    """

    def __init__(
        self, settings: CoordinatorSettings, spawners: Sequence[Spawner], cluster_id: str, home: str, *, dsn: Dsn
    ) -> None:
        self._home = home
        self._reconciler = Reconciler(
            settings,
            dsn=dsn,
            cluster_id=cluster_id,
            incarnation=new_incarnation(),
            fleets=[RayFleet(spawner) for spawner in spawners],
        )
        # An async actor's constructor runs inside its event loop, so a restarted actor begins to work by itself.
        self._work = asyncio.get_event_loop().create_task(self._reconciler.run(), name="coordinator")

    async def ping(self) -> bool:
        """Say whether the coordinator's loop runs, and its shards come up.

        errors:  the error that ended the loop
        """
        if self._work.done():
            self._work.result()
        return not self._work.done() and not self._reconciler.is_stuck

    async def is_away(self) -> bool:
        """Say whether it runs on another node than `home`."""
        return bool(ray.get_runtime_context().get_node_id() != self._home)

    async def stop(self) -> None:
        """Drain every keeper and give up the lead."""
        self._reconciler.stop()
        await self._work
