"""Send statements on a connection of psycopg 3."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Error
from psycopg.pq import TransactionStatus
from psycopg.rows import scalar_row

from shardclock.sql.keepalive import keep_alive
from shardclock.sql.refusals import PostgresFault, converting_refusals
from shardclock.sql.statement import Statement


class AsyncPsycopg:
    """Send each statement with a new cursor, so that the user's cursor and row factories have no effect."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and return the single text of its single row."""
        async with AsyncCursor(self._connection, row_factory=scalar_row) as cursor:
            with converting_refusals(Error, _describe):
                await cursor.execute(statement.with_placeholder("%(asked)s"), {"asked": asked})
                answer: str | None = await cursor.fetchone()
            return answer

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The user's connection."""
        return self._connection

    @property
    def commits_each(self) -> bool:
        """Whether the connection commits each statement that runs outside of a transaction (autocommit)."""
        return self._connection.autocommit

    @property
    def backend(self) -> int | None:
        """The id of the Postgres process that serves the connection, as reported when the connection was opened."""
        return self._connection.info.backend_pid

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed or lost."""
        return self._connection.closed

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.info.transaction_status != TransactionStatus.IDLE

    async def prepare(self) -> None:
        """Prepare the connection for one consumer."""
        await self._connection.set_autocommit(True)
        keep_alive(self._connection)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction for a block."""
        return self._connection.transaction()

    async def run(self, command: str) -> None:
        """Run a command without a result."""
        async with AsyncCursor(self._connection) as cursor:
            await cursor.execute(command.encode())

    async def listen(self, channel: str) -> None:
        """Subscribe to the notifications of a channel."""
        await self.run(f"listen {channel}")

    async def wait(self, within_s: float) -> None:
        """Wait for a notification, or return immediately if one has arrived since the previous call."""
        async for _ in self._connection.notifies(timeout=within_s, stop_after=1):
            pass

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def drop(self) -> None:
        """Close the connection without a message to the server."""
        await self._connection.close()


def _describe(error: Error) -> PostgresFault:
    return PostgresFault(error.sqlstate, error.diag.message_primary, error.diag.constraint_name)
