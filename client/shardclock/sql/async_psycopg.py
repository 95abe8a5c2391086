"""Ask on a connection of psycopg 3."""

from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Error
from psycopg.rows import scalar_row

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


def _said_by(error: Error) -> Said:
    return Said(error.sqlstate, error.diag.message_primary)
