"""The Ray actor around one shard: it starts it, watches it, and lets it go. It decides nothing."""

import asyncio
import os
import secrets
import socket

import ray

from shards.settings import ShardSettings
from shards.shard import Shard
from sql.holders import Incarnation

LEAVE_S = 0.5  # time for `watch` to tell why
HOLDER_BITS = 63  # a holder is a bigint: positive, drawn anew at each start


class ShardActor:
    """Keep one shard for as long as the actor lives; a new actor is a new holder."""

    def __init__(self, settings: ShardSettings, cluster_id: str, actor_name: str) -> None:
        self._shard = Shard(
            Incarnation(
                holder=secrets.randbits(HOLDER_BITS),
                cluster_id=cluster_id,
                actor_name=actor_name,
                node_id=ray.get_runtime_context().get_node_id(),
                host=socket.gethostname(),
                pid=os.getpid(),
                identity=settings.identity,
            ),
            settings,
        )
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Start the shard, once, and name its holder."""
        if self._work is None:
            self._work = asyncio.create_task(self._shard.run(), name="shard")
            self._work.add_done_callback(_leave_if_failed)
        return self._shard.holder

    async def watch(self) -> None:
        """Return when the shard has drained, and fail when it fails; a pending call tells of the actor's death.

        errors:  HolderEnded  somebody else was given its timers
        """
        await self.start()
        assert self._work is not None
        await asyncio.shield(self._work)

    async def drain(self) -> int:
        """Stop claiming, finish the statement in flight, hand back; within a second. Returns the holder."""
        await self._shard.drain()
        if self._work is not None:
            await asyncio.wait([self._work])
        return self._shard.holder


def _leave_if_failed(work: "asyncio.Task[None]") -> None:
    """End the process of a shard that was ended or failed: the coordinator that would kill it may be gone for good."""
    if not work.cancelled() and work.exception() is not None:
        asyncio.get_running_loop().call_later(LEAVE_S, os._exit, 1)
