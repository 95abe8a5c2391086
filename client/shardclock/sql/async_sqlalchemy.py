"""Ask in a session or on a connection of SQLAlchemy 2, whichever driver is below it."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from shardclock.log.async_timing import sleep
from shardclock.sql.keepalive import keep_alive
from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement


class AsyncExecutor(Protocol):
    """Run statements, as sessions and connections do."""

    async def scalar(self, statement: Any, params: Any = None, /) -> Any:
        """Run a statement, and give the first value of its first row, or None."""

    async def execute(self, statement: Any, /) -> Any:
        """Run a statement."""

    async def invalidate(self) -> None:
        """Give up the connection of the driver."""

    async def close(self) -> None:
        """Close the session or the connection."""

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction for a block, and end it."""

    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""


class AsyncSqlalchemy:
    """Send statements in the transaction that a session or a connection is in, or begins by itself."""

    backend = None  # SQLAlchemy does not tell it
    commits_each = False  # it begins a transaction with the first statement

    def __init__(self, executor: AsyncExecutor) -> None:
        self._executor = executor

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        with refusing(DBAPIError, _said_by):
            answer: str | None = await self._executor.scalar(text(statement.with_place(":asked")), {"asked": asked})
        return answer

    @property
    def connection(self) -> AsyncExecutor:
        """Return the user's session or connection."""
        return self._executor

    @property
    def is_closed(self) -> bool:
        """Say whether the connection was closed or lost; a session does not tell it."""
        return getattr(self._executor, "closed", False) or getattr(self._executor, "invalidated", False)

    @property
    def is_in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        return self._executor.in_transaction()

    async def prepare(self) -> None:
        """Prepare the connection to belong to one consumer.

        errors:  TypeError  it is a session, which takes another connection for each transaction
        """
        if not hasattr(self._executor, "invalidated"):
            raise TypeError(
                "a consumer keeps one connection, and a session takes one for each transaction: give engine.connect,"
                " and make a Session(connection) in the work"
            )
        plain: Any = getattr(self._executor, "sync_connection", self._executor)
        keep_alive(plain.connection.driver_connection)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction for a block, and end it."""
        return self._executor.begin()

    async def run(self, command: str) -> None:
        """Run a command that gives nothing."""
        await self._executor.execute(text(command))

    async def listen(self, channel: str) -> None:
        """Receive no notifications: SQLAlchemy has no call for them."""

    async def wait(self, within_s: float) -> None:
        """Wait until the next look."""
        await sleep(within_s)

    async def close(self) -> None:
        """Close the connection; the engine's pool does not get it back, because it has the consumer's settings."""
        await self.drop()

    async def drop(self) -> None:
        """Close the connection of the driver without a word to the server."""
        await self._executor.invalidate()
        await self._executor.close()


def _said_by(error: DBAPIError) -> Said:
    """Read what a driver's error says; SQLAlchemy puts an error of its own around one of asyncpg's."""
    for told in (error.orig, error.orig.__cause__ if error.orig else None):
        sqlstate = getattr(told, "sqlstate", None) or getattr(told, "pgcode", None)
        sentence = getattr(getattr(told, "diag", None), "message_primary", None) or getattr(told, "message", None)
        if sqlstate and sentence:
            return Said(sqlstate, sentence)
    return Said(None, None)
