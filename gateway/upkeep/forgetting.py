"""Forget answers that were kept for requests that might be sent again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.keepers.loops import upkeep
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.requests.requests import forget_requests
from shardclock_server.sql.served import NO_TENANTS

FORGET_S = 3_600.0  # between two looks for answers that are old


@asynccontextmanager
async def forgetting(pool: Pool) -> AsyncIterator[None]:
    """Forget old answers once in a while, during a block."""

    async def forget() -> float:
        async with pool.session(NO_TENANTS) as session:
            await forget_requests(session)
        return FORGET_S

    async with upkeep("forgetting old answers", forget):
        yield
