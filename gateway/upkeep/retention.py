"""Delete old responses of idempotent requests, old sessions of the console, and old operations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.keepers.loops import upkeep
from shardclock_server.sql.idempotency.requests import forget_requests
from shardclock_server.sql.keys.sessions import forget_sessions
from shardclock_server.sql.operations.operations import forget_operations
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import ALL_TENANTS

DELETE_S = 3_600.0  # the time between two deletions


@asynccontextmanager
async def deleting_old_responses(pool: Pool) -> AsyncIterator[None]:
    """Delete old responses, sessions and operations once an hour, during a `with` block."""

    async def delete() -> float:
        async with pool.session(ALL_TENANTS) as session:
            await forget_requests(session)
            await forget_sessions(session)
            await forget_operations(session)
        return DELETE_S

    async with upkeep("deleting old responses", delete):
        yield
