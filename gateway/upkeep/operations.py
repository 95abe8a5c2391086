"""Continue the operations that the console started, and operations of commands that have exited early."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shardclock_server.keepers.loops import upkeep
from shardclock_server.service.operations import continue_operation, tenants_of
from shardclock_server.sql.operations.operations import find_due_operation
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import ALL_TENANTS

POLL_S = 5.0  # the time between two searches for operations that other processes have started or left unfinished


@asynccontextmanager
async def continuing_operations(pool: Pool, begun: asyncio.Event) -> AsyncIterator[None]:
    """Continue due bulk operations page by page during a `with` block; set `begun` to search for new operations early.

    The operation that has been due for the longest time comes first, so that a long operation does not block other
    operations.
    """

    async def change_page() -> float:
        begun.clear()
        async with pool.session(ALL_TENANTS) as session:
            due = await find_due_operation(session)
        if due is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await begun.wait()
            return 0.0
        async with pool.session(tenants_of(due), key_prefix=due.key_prefix or "") as session:
            await continue_operation(session, due)
        return 0.0

    async with pool, upkeep("continuing operations", change_page):
        yield
