"""Run several shards in the test's own process, each as its actor would run it, and end the shards in every way."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, end_holders
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, add_holder, add_timers
from tests.support.roles import as_role
from tests.support.waiting import eventually

FIRED = (
    "select timer_key, occurrence, name, due_date, recorded_at, holder from shardclock.command_log"
    " where intent = 'TRIGGERED' order by position"
)


class ShardPool:
    """Keep the shards of one database, and the test's own connection to this database."""

    def __init__(self, dsn: str, db: asyncpg.Connection) -> None:
        self.dsn = dsn
        self.db = db
        self.work: dict[Shard, asyncio.Task[None]] = {}

    async def start(self, shard: int | None = 0, of: int | None = 1, **tuning: Any) -> Shard:
        """Start a shard with an assignment, or without one."""
        made = Shard(incarnation(), ShardSettings(**tuning), as_role(self.dsn, "shard"))
        await add_holder(self.dsn, made.holder, shard, of)
        self.work[made] = asyncio.create_task(made.run())
        return made

    async def until_ready(self, shard: Shard) -> None:
        """Wait until a shard is registered and connected, so that timers that are due soon don't wait for its start."""
        await eventually(lambda: shard._is_prepared)

    async def lease(self, shard: Shard, count: int, due: str) -> list[int]:
        """When a shard is ready, add timers that are due soon; wait until the shard has the timers in memory."""
        await self.until_ready(shard)
        keys = await add_timers(self.dsn, count, due)
        await self.until_held(shard, count)
        return keys

    async def drain(self, *shards: Shard) -> None:
        """Drain shards as the coordinator does; the shards release their timers."""
        for shard in shards:
            await shard.drain()
        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(*(self.work.pop(shard) for shard in shards))

    async def end(self, holder: int) -> None:
        """Declare a holder dead, as the coordinator does."""
        async with Session(as_role(self.dsn, "shard"), application="test") as session:
            assert [ended.holder for ended in await end_holders(session, [holder], why="test")] == [holder]

    async def assign(self, shards: Mapping[Shard, tuple[int, int] | None]) -> None:
        rows = [(shard.holder, *(places or (None, None))) for shard, places in shards.items()]
        async with self.db.transaction():
            await self.db.executemany(
                "update shardclock.holders set part = $2, part_count = $3 where holder = $1", rows
            )

    async def fired(self) -> list[asyncpg.Record]:
        """Read every TRIGGERED record, in the log's order."""
        rows: list[asyncpg.Record] = await self.db.fetch(FIRED, timeout=BOUND_S)
        return rows

    async def count_fired(self) -> int:
        return int(await self.db.fetchval("select count(*) from shardclock.command_log where intent = 'TRIGGERED'"))

    async def until_fired(self, count: int, *, within_s: float = 30.0) -> None:

        async def enough() -> bool:
            return await self.count_fired() >= count

        await eventually(enough, within_s=within_s)

    async def until_empty(self, *, within_s: float = 30.0) -> None:

        async def empty() -> bool:
            return not await self.db.fetchval("select exists (select from shardclock.timers)")

        await eventually(empty, within_s=within_s)

    async def until_told(self, count: int, *shards: Shard) -> None:
        """Wait until these shards have received the answers to `count` firings, after Postgres has recorded them."""
        await eventually(lambda: sum(shard.stats.fired for shard in shards) >= count)

    async def until_held(self, shard: Shard, count: int) -> None:
        """Wait until a shard holds `count` timers in memory."""
        await eventually(lambda: len(shard) >= count)

    async def close(self) -> None:
        """Drain every remaining shard, and raise the error of a failed shard."""
        for shard in self.work:
            await shard.drain()
        ends = await asyncio.gather(*self.work.values(), return_exceptions=True)
        self.work.clear()
        assert not [end for end in ends if end is not None]


@asynccontextmanager
async def pool_of(dsn: str) -> AsyncIterator[ShardPool]:
    db = await connect(dsn)
    pool = ShardPool(dsn, db)
    try:
        yield pool
    finally:
        try:
            async with asyncio.timeout(BOUND_S):
                await pool.close()
        finally:
            db.terminate()


async def connect(dsn: str) -> asyncpg.Connection:
    return await asyncpg.connect(
        dsn, timeout=BOUND_S, command_timeout=BOUND_S, server_settings={"timezone": "UTC", "application_name": "test"}
    )


def incarnation() -> Incarnation:
    return Incarnation(
        holder=secrets.randbits(63),
        role=SHARD,
        cluster_id="test",
        actor_name="test",
        node_id="test",
        host="test",
        pid=1,
    )
