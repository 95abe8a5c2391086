"""Ask on a connection of psycopg 3."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Error
from psycopg.pq import TransactionStatus
from psycopg.rows import scalar_row

from shardclock.sql.keepalive import keep_alive
from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement


class AsyncPsycopg:
    """Send statements by a cursor of its own: the user's factories of cursors and rows stay out of it."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        async with AsyncCursor(self._connection, row_factory=scalar_row) as cursor:
            with refusing(Error, _said_by):
                await cursor.execute(statement.with_place("%(asked)s"), {"asked": asked})
                answer: str | None = await cursor.fetchone()
            return answer

    @property
    def connection(self) -> AsyncConnection[Any]:
        """Return the user's connection."""
        return self._connection

    @property
    def commits_each(self) -> bool:
        """Say whether the connection commits a statement outside of a transaction by itself."""
        return self._connection.autocommit

    @property
    def backend(self) -> int | None:
        """Return the process of Postgres that was promised when the connection was opened."""
        return self._connection.info.backend_pid

    @property
    def is_closed(self) -> bool:
        """Say whether the connection was closed or lost."""
        return self._connection.closed

    @property
    def is_in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        return self._connection.info.transaction_status != TransactionStatus.IDLE

    async def prepare(self) -> None:
        """Prepare the connection to belong to one consumer."""
        await self._connection.set_autocommit(True)
        keep_alive(self._connection)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction for a block, and end it."""
        return self._connection.transaction()

    async def run(self, command: str) -> None:
        """Run a command that gives nothing."""
        async with AsyncCursor(self._connection) as cursor:
            await cursor.execute(command.encode())

    async def listen(self, channel: str) -> None:
        """Begin to receive the notifications of a channel."""
        await self.run(f"listen {channel}")

    async def wait(self, within_s: float) -> None:
        """Wait for a notification that came since the last call."""
        async for _ in self._connection.notifies(timeout=within_s, stop_after=1):
            pass

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def drop(self) -> None:
        """Close the connection without a word to the server."""
        await self._connection.close()


def _said_by(error: Error) -> Said:
    return Said(error.sqlstate, error.diag.message_primary)
