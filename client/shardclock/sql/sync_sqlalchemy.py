# Written by `make docs` from async_sqlalchemy.py: change that, and write this anew.
"""Ask in a session or on a connection of SQLAlchemy 2, whichever driver is below it."""

from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement


class Executor(Protocol):
    """Run statements, as sessions and connections do."""

    def scalar(self, statement: Any, params: Any = None, /) -> Any:
        """Run a statement, and give the first value of its first row, or None."""


class Sqlalchemy:
    """Send statements in the transaction that a session or a connection is in, or begins by itself."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        with refusing(DBAPIError, _said_by):
            answer: str | None = self._executor.scalar(text(statement.with_place(":asked")), {"asked": asked})
        return answer


def _said_by(error: DBAPIError) -> Said:
    """Read what a driver's error says; SQLAlchemy puts an error of its own around one of asyncpg's."""
    for told in (error.orig, error.orig.__cause__ if error.orig else None):
        sqlstate = getattr(told, "sqlstate", None) or getattr(told, "pgcode", None)
        sentence = getattr(getattr(told, "diag", None), "message_primary", None) or getattr(told, "message", None)
        if sqlstate and sentence:
            return Said(sqlstate, sentence)
    return Said(None, None)
