# `make docs` writes this file from async_sqlalchemy.py: change that file, and run `make docs`.
"""Send statements in a session or on a connection of SQLAlchemy 2, with any driver below it."""

import time
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from shardclock.sql.keepalive import keep_alive
from shardclock.sql.refusals import PostgresFault, converting_refusals
from shardclock.sql.statement import Statement


class SqlExecutor(Protocol):
    """Run statements, as sessions and connections do."""

    def scalar(self, statement: Any, params: Any = None, /) -> Any:
        """Run a statement, and return the first value of its first row, or None."""

    def execute(self, statement: Any, /) -> Any:
        """Run a statement."""

    def invalidate(self) -> None:
        """Discard the driver's connection."""

    def close(self) -> None:
        """Close the session or the connection."""

    def begin(self) -> AbstractContextManager[Any]:
        """Open a transaction for a block."""

    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""


class Sqlalchemy:
    """Send statements in the transaction of a session or a connection; SQLAlchemy begins a transaction if needed."""

    backend = None  # SQLAlchemy does not provide the process id.
    commits_each = False  # The first statement begins a transaction.

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and return the single text of its single row."""
        with converting_refusals(DBAPIError, _describe):
            answer: str | None = self._executor.scalar(text(statement.with_placeholder(":asked")), {"asked": asked})
        return answer

    @property
    def connection(self) -> SqlExecutor:
        """The user's session or connection."""
        return self._executor

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed or lost; False for a session, because sessions don't report this."""
        return getattr(self._executor, "closed", False) or getattr(self._executor, "invalidated", False)

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._executor.in_transaction()

    def prepare(self) -> None:
        """Prepare the connection for one consumer.

        errors:  TypeError  the user's object is a session, which uses another connection for each transaction
        """
        if not hasattr(self._executor, "invalidated"):
            raise TypeError(
                "a consumer keeps one connection, and a session takes one for each transaction: give engine.connect,"
                " and make a Session(connection) in the work"
            )
        plain: Any = getattr(self._executor, "sync_connection", self._executor)
        keep_alive(plain.connection.driver_connection)

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction for a block."""
        return self._executor.begin()

    def run(self, command: str) -> None:
        """Run a command without a result."""
        self._executor.execute(text(command))

    def listen(self, channel: str) -> None:
        """Do nothing: SQLAlchemy has no call for notifications."""

    def wait(self, within_s: float) -> None:
        """Wait until the next poll."""
        time.sleep(within_s)

    def close(self) -> None:
        """Close the connection instead of returning it to the pool, because the consumer has changed its settings."""
        self.drop()

    def drop(self) -> None:
        """Close the driver's connection without a message to the server."""
        self._executor.invalidate()
        self._executor.close()


def _describe(error: DBAPIError) -> PostgresFault:
    """Read Postgres's refusal from a driver's error; SQLAlchemy wraps asyncpg's error in an error of its own."""
    for told in (error.orig, error.orig.__cause__ if error.orig else None):
        sqlstate = getattr(told, "sqlstate", None) or getattr(told, "pgcode", None)
        sentence = getattr(getattr(told, "diag", None), "message_primary", None) or getattr(told, "message", None)
        constraint = getattr(getattr(told, "diag", None), "constraint_name", None) or getattr(
            told, "constraint_name", None
        )
        if sqlstate and sentence:
            return PostgresFault(sqlstate, sentence, constraint)
    return PostgresFault(None, None)
