"""Keep transactions with locks open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.support.factories import BOUND_S


@asynccontextmanager
async def open_transaction(dsn: str, *statements: str) -> AsyncIterator[asyncpg.Connection]:
    """Keep a transaction open after these statements; roll the transaction back at the end."""
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        transaction = connection.transaction()
        await transaction.start()
        for statement in statements:
            await connection.execute(statement)
        yield connection
        await transaction.rollback()
    finally:
        connection.terminate()
