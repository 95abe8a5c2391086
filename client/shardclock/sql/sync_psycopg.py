# Written by `make docs` from async_psycopg.py: change that, and write this anew.
"""Ask on a connection of psycopg 3."""

from contextlib import AbstractContextManager
from typing import Any

from psycopg import Connection, Cursor, Error
from psycopg.pq import TransactionStatus
from psycopg.rows import scalar_row

from shardclock.sql.keepalive import keep_alive
from shardclock.sql.refusals import Said, refusing
from shardclock.sql.statement import Statement


class Psycopg:
    """Send statements by a cursor of its own: the user's factories of cursors and rows stay out of it."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row."""
        with Cursor(self._connection, row_factory=scalar_row) as cursor:
            with refusing(Error, _said_by):
                cursor.execute(statement.with_place("%(asked)s"), {"asked": asked})
                answer: str | None = cursor.fetchone()
            return answer

    @property
    def connection(self) -> Connection[Any]:
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

    def prepare(self) -> None:
        """Prepare the connection to belong to one consumer."""
        self._connection.set_autocommit(True)
        keep_alive(self._connection)

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction for a block, and end it."""
        return self._connection.transaction()

    def run(self, command: str) -> None:
        """Run a command that gives nothing."""
        with Cursor(self._connection) as cursor:
            cursor.execute(command.encode())

    def listen(self, channel: str) -> None:
        """Begin to receive the notifications of a channel."""
        self.run(f"listen {channel}")

    def wait(self, within_s: float) -> None:
        """Wait for a notification that came since the last call."""
        for _ in self._connection.notifies(timeout=within_s, stop_after=1):
            pass

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def drop(self) -> None:
        """Close the connection without a word to the server."""
        self._connection.close()


def _said_by(error: Error) -> Said:
    return Said(error.sqlstate, error.diag.message_primary)
