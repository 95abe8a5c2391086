"""Delete old responses of idempotent requests, and old sessions of the console."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.keepers.loops import upkeep
from shardclock_server.sql.keys.sessions import forget_sessions
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.requests.requests import forget_requests
from shardclock_server.sql.served import NO_TENANTS

DELETE_S = 3_600.0  # the time between two deletions


@asynccontextmanager
async def deleting_old_responses(pool: Pool) -> AsyncIterator[None]:
    """Delete old responses and sessions once an hour, during a block."""

    async def delete() -> float:
        async with pool.session(NO_TENANTS) as session:
            await forget_requests(session)
            await forget_sessions(session)
        return DELETE_S

    async with upkeep("deleting old responses", delete):
        yield
