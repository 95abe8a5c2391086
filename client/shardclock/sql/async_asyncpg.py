"""Ask on a connection of asyncpg, which has an event loop only."""

from typing import Any

from asyncpg import Connection, PostgresError

from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement


class AsyncAsyncpg:
    """Send statements on a connection, be it a pool's or not."""

    def __init__(self, connection: "Connection[Any]") -> None:
        self._connection = connection

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        with refusing(PostgresError, _said_by):
            answer: str | None = await self._connection.fetchval(statement.with_place("$1"), asked)
        return answer


def _said_by(error: PostgresError) -> Said:
    return Said(error.sqlstate, error.message)
