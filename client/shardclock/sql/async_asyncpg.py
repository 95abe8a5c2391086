"""Send statements on a connection of asyncpg, which always needs an event loop."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from asyncpg import Connection, PostgresError

from shardclock.sql.refusals import PostgresFault, converting_refusals
from shardclock.sql.statement import Statement

CLOSE_S = 1.0


class AsyncAsyncpg:
    """Send statements on a connection, with or without a pool."""

    commits_each = True  # asyncpg commits each statement outside of a transaction

    def __init__(self, connection: "Connection[Any]") -> None:
        self._connection = connection
        self._heard = asyncio.Event()

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and return the single text of its single row."""
        with converting_refusals(PostgresError, _describe):
            answer: str | None = await self._connection.fetchval(statement.with_placeholder("$1"), asked)
        return answer

    @property
    def connection(self) -> "Connection[Any]":
        """The user's connection."""
        return self._connection

    @property
    def backend(self) -> int | None:
        """The id of the Postgres process that serves the connection, as reported when the connection was opened."""
        return self._connection.get_server_pid()

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed or lost."""
        return self._connection.is_closed()

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.is_in_transaction()

    async def prepare(self) -> None:
        """Prepare the connection for one consumer."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction for a block."""
        return self._connection.transaction()

    async def run(self, command: str) -> None:
        """Run a command without a result."""
        await self._connection.execute(command)

    async def listen(self, channel: str) -> None:
        """Subscribe to the notifications of a channel."""
        await self._connection.add_listener(channel, lambda *_: self._heard.set())

    async def wait(self, within_s: float) -> None:
        """Wait for a notification since the last call."""
        try:
            async with asyncio.timeout(within_s):
                await self._heard.wait()
        except TimeoutError:
            return
        self._heard.clear()

    async def close(self) -> None:
        """Close the connection."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._connection.close()
        finally:
            await self.drop()

    async def drop(self) -> None:
        """Close the connection without a message to the server."""
        self._connection.terminate()


def _describe(error: PostgresError) -> PostgresFault:
    return PostgresFault(error.sqlstate, error.message, error.constraint_name)
