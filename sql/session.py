"""One connection to Postgres that opens itself again after it was lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg

from sql.statements import statement

Record = asyncpg.Record
Connection = asyncpg.Connection

# A process that stands still between a statement and the end of its message holds locks that no other limit ends. Older
# servers don't know this one, and refuse who names it at connecting.
TRANSACTION_TIMEOUT_SINCE = (17,)

# Claims and fires walk two known indexes. A table that grows from nothing to millions before its first
# ANALYZE would talk the planner into a sequential scan, and a cached plan would keep it there:
# docs/decisions/0005-queue-plans.md.
QUEUE_PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}

# For what need not survive a crash: its commits wait for no disk and no replica.
UNSYNCED = {"synchronous_commit": "off"}

# A host that has vanished says no goodbye: its sessions, with all they hold, end about 10 s later instead of 2 hours.
# Only TCP takes notice of these.
KEEPALIVES = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "9s",
}

# Trouble of the moment: the same call may succeed on a new connection. Anything else is a fault of the call.
_PASSING = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # after a failover we may be talking to what is now a replica
)
# Sound trouble of the statement's own: the connection that reported it is still good.
_STATEMENT_ONLY = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,
)


class StoreUnavailable(Exception):
    """Postgres gave no answer in time: what was asked may or may not have happened; read before deciding."""


class StoreLocked(StoreUnavailable):
    """Somebody holds a lock that the statement waited for, for as long as it may: nothing has happened."""


class StatementRefused(Exception):
    """Postgres understood what was asked and refused it: asking again changes nothing."""

    def __init__(self, message: str, *, sqlstate: str = "", constraint: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.constraint = constraint


class Session:
    """Keep one connection, used by one task at a time."""

    def __init__(
        self,
        dsn: str,
        *,
        application: str,
        timeout_s: float = 5.0,
        plans: dict[str, str] | None = None,
    ) -> None:
        self._dsn = dsn
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        # The server gives up shortly before we do, so that it never works on what nobody waits for; and a
        # frozen client must not keep due rows locked for longer than a statement may take.
        limit_ms = str(int(timeout_s * 900))
        self._server_settings = {
            "application_name": application,
            "timezone": "UTC",
            "statement_timeout": limit_ms,
            "lock_timeout": limit_ms,
            "idle_in_transaction_session_timeout": limit_ms,
            **KEEPALIVES,
            **(plans or {}),
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def rows(self, name: str, *args: Any) -> list[Record]:
        """Run the statement `queries/<name>.sql`.

        errors:  StoreUnavailable  no answer in time, or the connection was lost: the outcome is unknown
                 StatementRefused  the statement or its values are at fault
        """
        async with self.connection() as connection:
            rows: list[Record] = await connection.fetch(statement(name), *args)
            return rows

    async def row(self, name: str, *args: Any) -> Record | None:
        """Run a statement that gives one row or none."""
        rows = await self.rows(name, *args)
        return rows[0] if rows else None

    @asynccontextmanager
    async def connection(self, *, timeout_s: float | None = None) -> AsyncIterator[Connection]:
        """Lend the connection, opened if need be, and drop it if it breaks or outstays the timeout."""
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                yield await self._open()
        except _PASSING as error:
            if not isinstance(error, _STATEMENT_ONLY):
                self._drop()
            locked = isinstance(error, asyncpg.LockNotAvailableError)
            raise (StoreLocked if locked else StoreUnavailable)(_one_line(error)) from error
        except asyncpg.PostgresError as error:
            raise StatementRefused(
                _one_line(error), sqlstate=error.sqlstate or "", constraint=error.constraint_name or ""
            ) from error
        except asyncio.CancelledError:
            # A statement cut off half way leaves the connection in the middle of an answer.
            self._drop()
            raise

    @asynccontextmanager
    async def transaction(self, *, timeout_s: float | None = None) -> AsyncIterator[Connection]:
        """Lend the connection inside one transaction, committed at the end of the block."""
        async with self.connection(timeout_s=timeout_s) as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        """Close the connection; a server that doesn't answer is left behind."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(1.0):
                await connection.close()
        except _PASSING:
            connection.terminate()

    async def _open(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._dsn, server_settings=self._server_settings, timeout=self._timeout_s
            )
            if self._connection.get_server_version() >= TRANSACTION_TIMEOUT_SINCE:
                # A little later than the others: a statement that is too long is ended, and its session lives on.
                await self._connection.execute(f"set transaction_timeout = {int(self._timeout_s * 1000)}")
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
