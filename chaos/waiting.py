"""Wait for conditions, also while Postgres is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

# asyncpg raises InternalClientError if a connection was lost before asyncpg has noticed the loss.
UNAVAILABLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
POLL_S = 0.05


async def until(holds: Callable[[], Any], *, within_s: float) -> bool:
    """Wait until a condition is true; return False after the time limit.

    While Postgres is unavailable, the condition counts as false.
    """
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if await holds():
                        return True
                except UNAVAILABLE:
                    pass
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        return False


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection for a block, and close it afterwards.

    errors:  an exception in UNAVAILABLE, without a connection to Postgres
    """
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        yield connection
    finally:
        connection.terminate()
