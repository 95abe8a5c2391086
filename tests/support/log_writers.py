"""Write to the command log in unusual ways, and read the keys in its order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock.log.async_reading import read_log
from shardclock_server.sql.session import Session
from tests.support.factories import HolderClient
from tests.support.sql_client import session

LOG_COLUMNS = "timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target"
# A writer that sets no marks.
INSERT = (
    f"insert into shardclock.command_log ({LOG_COLUMNS})"
    " select i, now(), now(), 1, 'TRIGGERED', 'default', 'USER', 'log'"
)


async def keys_in(reader: Session, after: int = 0) -> list[int]:
    return [record.timer_key for record in await read_log(reader, after, limit=10_000)]


async def told(dsn: str, key: int) -> list[str]:
    """Read the intents of a timer's records, in the log's order."""
    async with session(dsn) as reader:
        return [record.intent for record in await read_log(reader) if record.timer_key == key]


@asynccontextmanager
async def foreign_write(dsn: str) -> AsyncIterator[None]:
    """Open a transaction that writes to other tables than the log; end it after the block."""
    async with HolderClient(dsn) as stranger:
        await stranger.begin()
        await stranger.value("select pg_current_xact_id()")
        yield


async def fire_leased(shard: HolderClient) -> None:
    await shard.fire((await shard.take()).claimed)
