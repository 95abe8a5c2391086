"""The Ray actor around one engine. It decides nothing."""

from shardclock_server.engine.engine import Engine
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.keepers.life import Life, new_incarnation
from shardclock_server.sql.cluster.holders import ENGINE
from shardclock_server.sql.dsn import Dsn


class EngineActor:
    """Keep one engine for as long as the actor lives; a new actor is a new holder."""

    def __init__(self, settings: EngineSettings, cluster_id: str, actor_name: str, *, dsn: Dsn) -> None:
        self._life = Life(Engine(new_incarnation(ENGINE, cluster_id, actor_name, settings.identity), settings, dsn))

    async def start(self) -> int:
        """Start the engine at the first call, and return its holder."""
        return self._life.start()

    async def watch(self) -> None:
        """Return when the engine has drained, and fail when it fails; the pending call also fails when the actor dies.

        errors:  HolderEnded  the engine was declared dead, and other engines have its slots
        """
        await self._life.watch()

    async def drain(self) -> int:
        """Write the batch in flight, end the holder and return it; takes a second at most."""
        return await self._life.drain()
