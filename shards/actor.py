"""The Ray actor around one shard. It decides nothing."""

from shardclock_server.keepers.life import Life, new_incarnation
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.dsn import Dsn


class ShardActor:
    """Keep one shard for as long as the actor lives; a new actor is a new holder."""

    def __init__(self, settings: ShardSettings, cluster_id: str, actor_name: str, *, dsn: Dsn) -> None:
        self._life = Life(Shard(new_incarnation(SHARD, cluster_id, actor_name, settings.identity), settings, dsn))

    async def start(self) -> int:
        """Start the shard at the first call, and return its holder."""
        return self._life.start()

    async def watch(self) -> None:
        """Return when the shard has drained, and fail when it fails; the pending call also fails when the actor dies.

        errors:  HolderEnded  the shard was declared dead, and other shards have its timers
        """
        await self._life.watch()

    async def drain(self) -> int:
        """Stop claiming, finish the statement in flight, end the holder and return it; takes at most a second."""
        return await self._life.drain()
