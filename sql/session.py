"""A connection to Postgres that is opened again after a loss."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Self

import asyncpg

from shardclock.api.codes import RefusalCode
from shardclock.api.refusals import code_of
from shardclock_server.sql.dsn import Dsn, InvalidDsn
from shardclock_server.sql.served import Served, Tenants
from shardclock_server.sql.session_settings import PoolerInBetween, connect, settings_of
from shardclock_server.sql.statements import call_of, statement

if TYPE_CHECKING:  # a shard starts faster if it does not import the client's SQL package
    from shardclock.sql.statement import Statement

Record = asyncpg.Record
Connection = asyncpg.Connection

# The statements that claim and fire timers must read two known indexes. If a table grows from empty to millions of rows
# before its first ANALYZE, the planner chooses a sequential scan, and the cached plan stays:
# docs/decisions/0005-queue-plans.md.
QUEUE_PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}

# A client that schedules many timers looks up each timer by its key. Without these settings the planner may read the
# whole table for every batch, for the reason above. Searches in the same session still get a plan that depends on their
# filters.
CLIENT_PLANS = {"enable_seqscan": "off", "jit": "off"}

# For searches in a large table with filters, page by page: a generic plan might read the whole table for each page.
EACH_TIME = {"plan_cache_mode": "force_custom_plan"}

# For writes that need not survive a crash: their commits don't wait for a disk or a replica.
UNSYNCED = {"synchronous_commit": "off"}

# Select the given backends that wait at commit for a synchronous standby. A cancel would end the wait, and make the
# changes visible although no standby has them. A failover would undo these changes:
# docs/decisions/0027-a-commit-that-waits.md.
WAIT_FOR_STANDBY = "select pid from pg_stat_activity where pid = any ($1::integer[]) and wait_event = 'SyncRep'"

# Transient errors: the same call may succeed on a new connection. Any other error comes from the call itself.
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
    asyncpg.ReadOnlySQLTransactionError,  # raised if this server is a replica after a failover
)
# The SQLSTATE for a missing right: the statement and its values are correct.
NOT_ALLOWED = "42501"
# The SQLSTATE classes of errors that a statement's values cause.
_INVALID_VALUE = "22000"
_VALUES_AT_FAULT = ("22", "23", "54")
# Errors that end only the statement: the connection can still be used.
_STATEMENT_ONLY = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,
)


class StoreUnavailable(Exception):
    """Postgres gave no answer in time.

    The statement may have taken effect, so the caller must read the data before it decides.
    """


class StoreLocked(StoreUnavailable):
    """The statement waited too long for a lock of another transaction. Nothing was changed."""


class StoreTooSlow(StoreUnavailable):
    """The server cancelled the statement at its time limit. Nothing was changed."""


class StatementRefused(Exception):
    """Postgres understood the statement and refused it. Postgres would refuse the same statement again."""

    def __init__(self, message: str, *, sqlstate: str = "", constraint: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.constraint = constraint

    @property
    def code(self) -> RefusalCode | None:
        """Return the code of a refusal by a function of this schema; None: Postgres itself refused the statement."""
        return code_of(self.constraint)

    @property
    def are_values_at_fault(self) -> bool:
        """Return whether the statement's values caused the refusal; if not, the same values may succeed later."""
        return self.sqlstate.startswith(_VALUES_AT_FAULT)


class Session:
    """A connection that one task uses at a time."""

    def __init__(
        self,
        dsn: Dsn | str,
        *,
        application: str,
        timeout_s: float = 5.0,
        plans: dict[str, str] | None = None,
        inherits: Collection[str] = (),
    ) -> None:
        """Prepare a session without connecting.

        The settings in `inherits` come from the role; the session sets all other settings.
        """
        self._dsn = Dsn.of(dsn)
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._in_transaction: Connection | None = None  # the connection with an open transaction
        self._backend = 0
        self._served = Served()
        self._left: set[int] = set()  # backends of dropped connections; they may still be running
        self._server_settings = settings_of(application, timeout_s, plans=plans or {}, inherits=inherits)

    def serve(self, tenants: Tenants, key_prefix: str = "") -> None:
        """Set the tenants and the API key of the next statements; "" means no API key.

        source:  sql/roles.sql, docs/decisions/0056-row-level-security.md
        """
        self._served.choose(tenants, key_prefix)

    def another(self, *, application: str, timeout_s: float, plans: dict[str, str] | None = None) -> "Session":
        """Return another session for the same database."""
        return Session(self._dsn, application=application, timeout_s=timeout_s, plans=plans)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def rows(self, statement_name: str, /, **values: object) -> list[Record]:
        """Run the statement in `<subject>/<statement_name>.sql` with a value for each parameter.

        errors:  StoreUnavailable  no answer in time, or the connection was lost: the outcome is unknown
                 StatementRefused  the statement or its values are at fault
        """
        return await self._fetch(statement(statement_name).with_values(values))

    async def row(self, statement_name: str, /, **values: object) -> Record | None:
        """Run a statement that returns one row or none."""
        rows = await self.rows(statement_name, **values)
        return rows[0] if rows else None

    async def call(self, function: str, /, **values: object) -> list[Record]:
        """Call the function `sql/functions/<subject>/<function>.sql`; an argument without a value has its default.

        errors:  as `rows`
        """
        return await self._fetch(call_of(function, values))

    async def call_one(self, function: str, /, **values: object) -> Any:
        """Call a function that returns one value, and return this value."""
        ((value,),) = await self.call(function, **values)
        return value

    async def answer(self, statement: "Statement", asked: str) -> str | None:
        """Run a client statement: its only parameter is a text, and its result is one text or null.

        errors:  as `rows`
        """
        async with self.connection() as connection:
            answer: str | None = await connection.fetchval(statement.with_placeholder("$1"), asked)
            return answer

    async def rows_telling(self, statement_name: str, /, **values: object) -> list[Record]:
        """Run a statement that reads no table, outside a transaction; its parameter `:tenants` also sets the session's
        tenants."""
        async with self.connection(tells=False) as connection:
            tenants = self._served.tenants
            values["tenants"] = self._served.unsent()
            rows: list[Record] = await connection.fetch(*statement(statement_name).with_values(values))
            self._served.note_sent(tenants)
            return rows

    @asynccontextmanager
    async def connection(self, *, timeout_s: float | None = None, tells: bool = True) -> AsyncIterator[Connection]:
        """Lend the connection, opened if necessary; drop the connection if the block fails or the timeout passes."""
        with self._errors_named():
            async with asyncio.timeout(timeout_s or self._timeout_s):
                yield await self._open(tells=tells)

    async def _fetch(self, asked: tuple[Any, ...]) -> list[Record]:
        """Send a statement; if the connection is open, avoid the overhead of the context manager `connection`."""
        connection = self._connection
        if self._left or connection is None or connection.is_closed() or not self._served.is_current:
            async with self.connection() as opened:
                return list(await opened.fetch(*asked))
        with self._errors_named():
            return list(await connection.fetch(*asked, timeout=self._timeout_s))

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Translate the driver's errors; drop the connection if the block fails or the timeout passes."""
        try:
            yield
        except asyncpg.ClientConfigurationError as error:
            raise StatementRefused(f"the DSN can't be read: {_one_line(error)}") from error
        except _PASSING as error:
            # The value does not fit its type: asyncpg has sent nothing.
            if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
                raise StatementRefused(_one_line(error), sqlstate=_INVALID_VALUE) from error
            if not isinstance(error, _STATEMENT_ONLY):
                self._drop()
            raise _sort_of(error)(_one_line(error)) from error
        except PoolerInBetween as error:
            raise StatementRefused(str(error), sqlstate=asyncpg.ProtocolViolationError.sqlstate) from error
        except asyncpg.PostgresError as error:
            raise StatementRefused(
                _one_line(error), sqlstate=error.sqlstate or "", constraint=error.constraint_name or ""
            ) from error
        except asyncio.CancelledError:
            # The rest of the cancelled statement's response is still unread, so the connection can't be used again.
            self._drop()
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend the connection to the block in a transaction, which is committed at the end of the block."""
        lost: StoreUnavailable | None = None
        try:
            async with self.connection() as connection, connection.transaction():
                around, self._in_transaction = self._in_transaction, connection
                try:
                    yield connection
                except StoreUnavailable as error:
                    lost = error  # a rollback on a lost connection fails, and this error would hide the reason
                    raise
                finally:
                    self._in_transaction = around
        except StoreUnavailable:
            if lost is not None:
                raise lost from None
            raise

    async def close(self) -> None:
        """Close the connection; if the server doesn't answer, drop it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(1.0):
                await connection.close()
        except _PASSING:
            connection.terminate()

    async def _open(self, *, tells: bool) -> Connection:
        if self._connection is None or self._connection.is_closed():
            if self._in_transaction is not None:
                # On a new connection the later statements would run without the transaction's earlier statements.
                raise StoreUnavailable("the connection was lost within a transaction")
            self._connection = await connect(self._reveal(), self._server_settings, timeout_s=self._timeout_s)
            self._backend = self._connection.get_server_pid()
            await self._served.begin(self._connection)
        if self._left:
            await self._wait_for_dropped_commits(self._connection)
        if tells:
            await self._served.send(self._connection)
        return self._connection

    def _reveal(self) -> str:
        try:
            return self._dsn.reveal()
        except InvalidDsn as error:  # the DSN's file may be repaired before the next attempt
            raise StoreUnavailable(str(error)) from None

    async def _wait_for_dropped_commits(self, connection: Connection) -> None:
        """Refuse to connect while a dropped connection's commit waits: each retry would add a waiting backend."""
        waiting = [row["pid"] for row in await connection.fetch(WAIT_FOR_STANDBY, list(self._left))]
        if waiting:
            raise StoreUnavailable(
                f"the last commit waits for a synchronous standby (backend {waiting[0]}): it goes on when one of"
                " synchronous_standby_names is back, or the setting is changed"
            )
        self._left.clear()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._left.add(self._backend)
            connection.terminate()


def _sort_of(error: BaseException) -> type[StoreUnavailable]:
    if isinstance(error, asyncpg.LockNotAvailableError):
        return StoreLocked
    return StoreTooSlow if isinstance(error, asyncpg.QueryCanceledError) else StoreUnavailable


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
