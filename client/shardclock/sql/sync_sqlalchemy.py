# Written by `make docs` from async_sqlalchemy.py: change that, and write this anew.
"""Ask in a session or on a connection of SQLAlchemy 2, whichever driver is below it."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from shardclock.log.sync_timing import sleep
from shardclock.sql.keepalive import keep_alive
from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement


class Executor(Protocol):
    """Run statements, as sessions and connections do."""

    def scalar(self, statement: Any, params: Any = None, /) -> Any:
        """Run a statement, and give the first value of its first row, or None."""

    def execute(self, statement: Any, /) -> Any:
        """Run a statement."""

    def invalidate(self) -> None:
        """Give up the connection of the driver."""

    def close(self) -> None:
        """Close the session or the connection."""

    def begin(self) -> AbstractContextManager[Any]:
        """Begin a transaction for a block, and end it."""

    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""


class Sqlalchemy:
    """Send statements in the transaction that a session or a connection is in, or begins by itself."""

    backend = None  # SQLAlchemy does not tell it
    commits_each = False  # it begins a transaction with the first statement

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        with refusing(DBAPIError, _said_by):
            answer: str | None = self._executor.scalar(text(statement.with_place(":asked")), {"asked": asked})
        return answer

    @property
    def connection(self) -> Executor:
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

    def prepare(self) -> None:
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

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction for a block, and end it."""
        return self._executor.begin()

    def run(self, command: str) -> None:
        """Run a command that gives nothing."""
        self._executor.execute(text(command))

    def listen(self, channel: str) -> None:
        """Receive no notifications: SQLAlchemy has no call for them."""

    def wait(self, within_s: float) -> None:
        """Wait until the next look."""
        sleep(within_s)

    def close(self) -> None:
        """Close the connection; the engine's pool does not get it back, because it has the consumer's settings."""
        self.drop()

    def drop(self) -> None:
        """Close the connection of the driver without a word to the server."""
        self._executor.invalidate()
        self._executor.close()


def _said_by(error: DBAPIError) -> Said:
    """Read what a driver's error says; SQLAlchemy puts an error of its own around one of asyncpg's."""
    for told in (error.orig, error.orig.__cause__ if error.orig else None):
        sqlstate = getattr(told, "sqlstate", None) or getattr(told, "pgcode", None)
        sentence = getattr(getattr(told, "diag", None), "message_primary", None) or getattr(told, "message", None)
        if sqlstate and sentence:
            return Said(sqlstate, sentence)
    return Said(None, None)
