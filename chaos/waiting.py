"""Wait for conditions while Postgres is unavailable now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

# asyncpg raises InternalClientError if a caller uses a connection before asyncpg has noticed its loss.
UNAVAILABLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
POLL_S = 0.05


async def until(holds: Callable[[], Any], *, within_s: float) -> bool:
    """Wait until a condition holds, and return whether it did; an unavailable Postgres counts as "not yet"."""
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
    """Open a connection for the length of a block.

    errors:  one of UNAVAILABLE
    """
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        yield connection
    finally:
        connection.terminate()
