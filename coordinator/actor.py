"""The Ray actor around the coordinator: it starts it and stops it. It decides nothing."""

import asyncio
import secrets

from coordinator.fleet import RayFleet, ShardSpawner
from coordinator.reconciler import Reconciler
from coordinator.settings import CoordinatorSettings

INCARNATION_BITS = 63  # a bigint in Postgres: positive, drawn anew at each start


class CoordinatorActor:
    """Lead one cluster; restarted by Ray, it carries on from what Postgres and Ray know."""

    def __init__(self, settings: CoordinatorSettings, spawner: ShardSpawner) -> None:
        self._reconciler = Reconciler(
            settings,
            cluster_id=spawner.cluster_id,
            incarnation=secrets.randbits(INCARNATION_BITS),
            fleet=RayFleet(spawner),
        )
        # An async actor's constructor runs inside its event loop, so a restarted one goes to work by itself.
        self._work = asyncio.get_event_loop().create_task(self._reconciler.run(), name="coordinator")

    async def ping(self) -> bool:
        """Say whether the coordinator is at work.

        errors:  whatever ended its loop
        """
        if self._work.done():
            self._work.result()
        return not self._work.done()

    async def stop(self) -> None:
        """Drain every shard and hand the lease back."""
        self._reconciler.stop()
        await self._work
