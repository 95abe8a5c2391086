"""Postgres is away now and then: what that looks like, and how to wait until it, or anything else, is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

# InternalClientError: asyncpg was asked again before it had noticed that the connection is lost.
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
LOOK_S = 0.05


async def until(holds: Callable[[], Any], *, within_s: float) -> bool:
    """Wait until something holds, which may fail while Postgres is away; say whether it came."""
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if await holds():
                        return True
                except AWAY:
                    pass
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        return False


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection for the length of a block.

    errors:  one of AWAY
    """
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        yield connection
    finally:
        connection.terminate()
