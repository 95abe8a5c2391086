"""Ask on a connection of asyncpg, which has an event loop only."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from asyncpg import Connection, PostgresError

from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement

CLOSE_S = 1.0


class AsyncAsyncpg:
    """Send statements on a connection, be it a pool's or not."""

    commits_each = True  # a statement outside of a transaction

    def __init__(self, connection: "Connection[Any]") -> None:
        self._connection = connection
        self._heard = asyncio.Event()

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        with refusing(PostgresError, _said_by):
            answer: str | None = await self._connection.fetchval(statement.with_place("$1"), asked)
        return answer

    @property
    def connection(self) -> "Connection[Any]":
        """Return the user's connection."""
        return self._connection

    @property
    def backend(self) -> int | None:
        """Return the process of Postgres that was promised when the connection was opened."""
        return self._connection.get_server_pid()

    @property
    def is_closed(self) -> bool:
        """Say whether the connection was closed or lost."""
        return self._connection.is_closed()

    @property
    def is_in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        return self._connection.is_in_transaction()

    async def prepare(self) -> None:
        """Prepare the connection to belong to one consumer."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction for a block, and end it."""
        return self._connection.transaction()

    async def run(self, command: str) -> None:
        """Run a command that gives nothing."""
        await self._connection.execute(command)

    async def listen(self, channel: str) -> None:
        """Begin to receive the notifications of a channel."""
        await self._connection.add_listener(channel, lambda *_: self._heard.set())

    async def wait(self, within_s: float) -> None:
        """Wait for a notification that came since the last call."""
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
        """Close the connection without a word to the server."""
        self._connection.terminate()


def _said_by(error: PostgresError) -> Said:
    return Said(error.sqlstate, error.message)
