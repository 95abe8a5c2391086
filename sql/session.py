"""One connection to Postgres, opened again after it was lost."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg

from shardclock.sql.statement import Statement as ClientStatement
from shardclock_server.sql.dsn import Dsn, InvalidDsn
from shardclock_server.sql.pinned import PINNED, PoolerInBetween, connect
from shardclock_server.sql.statements import call_of, statement

Record = asyncpg.Record
Connection = asyncpg.Connection

# The transaction_timeout setting. It ends the locks of a client process that stops between a statement and the end of
# its message, which no other limit does. An older server refuses a connection that names the setting.
TRANSACTION_TIMEOUT_SINCE = (17,)

# Claims and fires read two known indexes. If a table grows from empty to millions of rows before its first ANALYZE, the
# planner chooses a sequential scan, and a cached plan keeps it: docs/decisions/0005-queue-plans.md.
QUEUE_PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}

# Whoever schedules many timers looks for each by its key. For the same reason as above the planner may read the whole
# table for every batch; the searches that such a session makes, too, still get a plan for their own filters.
CLIENT_PLANS = {"enable_seqscan": "off", "jit": "off"}

# Whoever reads a large table page after page, by a filter: a plan for any filter might read all of it for each page.
EACH_TIME = {"plan_cache_mode": "force_custom_plan"}

# For writes that need not survive a crash: their commits wait for no disk and no replica.
UNSYNCED = {"synchronous_commit": "off"}

# A host that vanishes closes no connection. With these its sessions, and their locks, end after about 10 s instead of
# 2 hours. They have an effect on TCP connections only.
KEEPALIVES = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "9s",
}

# Select the backends among these whose commit waits for a synchronous standby. To cancel one would end the wait, and
# make its changes visible although no standby has them. A failover would undo such changes:
# docs/decisions/0027-a-commit-that-waits.md.
WAIT_FOR_STANDBY = "select pid from pg_stat_activity where pid = any ($1::integer[]) and wait_event = 'SyncRep'"

# Errors that pass: the same call may succeed on a new connection. Any other error is the call's fault.
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
    asyncpg.ReadOnlySQLTransactionError,  # after a failover this server may be a replica
)
# The SQLSTATE for a missing right: statement and values are fine, the role may not do it.
NOT_ALLOWED = "42501"
# The SQLSTATE with which our functions refuse, and the classes of those that a statement's own values cause.
_REFUSED = "22023"
_OVER_QUOTA = "SC429"
_INVALID_VALUE = "22000"
_VALUES_AT_FAULT = ("22", "23", "54")
# Errors that end the statement alone: the connection that reported one is still good.
_STATEMENT_ONLY = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,
)


# Whose rows a session may see, if its role is the gateway's: sql/roles.sql has the policies. Any other role sees all.
Tenants = frozenset[str]
NO_TENANTS: Tenants = frozenset()
ALL_TENANTS: Tenants = frozenset({"\n"})  # no tenant can have this name
_HAS_POLICIES = "select exists (select from pg_catalog.pg_policies p where p.schemaname = 'shardclock')"


class StoreUnavailable(Exception):
    """Postgres gave no answer in time: the statement may or may not have taken effect; read before you decide."""


class StoreLocked(StoreUnavailable):
    """Somebody holds a lock that the statement waited for as long as it may: nothing was changed."""


class StoreTooSlow(StoreUnavailable):
    """The server ended the statement, which took longer than it may: nothing was changed."""


class StatementRefused(Exception):
    """Postgres understood the statement and refused it: the same statement will be refused again."""

    def __init__(self, message: str, *, sqlstate: str = "", constraint: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.constraint = constraint

    @property
    def is_for_users(self) -> bool:
        """Say whether a function of ours refused it, in a sentence for users."""
        return self.sqlstate in (_REFUSED, _OVER_QUOTA)

    @property
    def is_over_quota(self) -> bool:
        """Say whether a tenant has as much as it may have of the resource that `constraint` names."""
        return self.sqlstate == _OVER_QUOTA

    @property
    def are_values_at_fault(self) -> bool:
        """Say whether the statement's own values caused it; any other error may be repaired without changing them."""
        return self.sqlstate.startswith(_VALUES_AT_FAULT)


class Session:
    """Keep one connection, used by one task at a time."""

    def __init__(
        self,
        dsn: Dsn | str,
        *,
        application: str,
        timeout_s: float = 5.0,
        plans: dict[str, str] | None = None,
        inherits: Collection[str] = (),
    ) -> None:
        """Keep what every connection is opened with; settings that it `inherits` are the role's, not pinned."""
        self._dsn = Dsn.of(dsn)
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._in_transaction: Connection | None = None  # the connection on which one is open
        self._backend = 0
        self._tenants: Tenants | None = None  # only a gateway's sessions say whom they serve
        self._key_prefix = ""  # nor does anybody else act by an API key
        self._told_key_prefix = ""  # as the server was told
        self._served: Tenants | None = None  # as the server was told
        self._is_walled = True  # if no policy asks whom a session serves, the server is not told
        self._left: set[int] = set()  # the backends of connections that were dropped: one may still be working
        # The server gives up shortly before we do, so that it never works on a statement for which nobody waits any
        # more; and a frozen client must not keep due rows locked for longer than a statement may take.
        limit_ms = str(int(timeout_s * 900))
        self._server_settings = {
            "application_name": application,
            **{name: value for name, value in PINNED.items() if name not in inherits},
            "statement_timeout": limit_ms,
            "lock_timeout": limit_ms,
            "idle_in_transaction_session_timeout": limit_ms,
            **KEEPALIVES,
            **(plans or {}),
        }

    def serve(self, tenants: Tenants, key_prefix: str = "") -> None:
        """Say for which tenants the next statements are; the server is told before the first one, if that is new.

        It is also told by which API key somebody acts, "" for none: nobody's acts are said to be another's.

        source:  sql/roles.sql, docs/decisions/0056-row-level-security.md
        """
        self._tenants = tenants
        self._key_prefix = key_prefix

    def another(self, *, application: str, timeout_s: float, plans: dict[str, str] | None = None) -> "Session":
        """Make one more session on the same database."""
        return Session(self._dsn, application=application, timeout_s=timeout_s, plans=plans)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def rows(self, statement_name: str, /, **values: object) -> list[Record]:
        """Run the statement `<subject>/<statement_name>.sql` with a value for each of its parameters.

        errors:  StoreUnavailable  no answer in time, or the connection was lost: the outcome is unknown
                 StatementRefused  the statement or its values are at fault
        """
        async with self.connection() as connection:
            rows: list[Record] = await connection.fetch(*statement(statement_name).with_values(values))
            return rows

    async def row(self, statement_name: str, /, **values: object) -> Record | None:
        """Run a statement that returns one row or none."""
        rows = await self.rows(statement_name, **values)
        return rows[0] if rows else None

    async def call(self, function: str, /, **values: object) -> list[Record]:
        """Call the function `sql/functions/<subject>/<function>.sql`; an argument without a value has its default.

        errors:  as `rows`
        """
        async with self.connection() as connection:
            rows: list[Record] = await connection.fetch(*call_of(function, values))
            return rows

    async def call_one(self, function: str, /, **values: object) -> Any:
        """Call a function that returns one value, and return that."""
        ((value,),) = await self.call(function, **values)
        return value

    async def answer(self, statement: ClientStatement, asked: str) -> str | None:
        """Run a statement of the client's, which takes one text and gives one.

        errors:  as `rows`
        """
        async with self.connection() as connection:
            answer: str | None = await connection.fetchval(statement.with_place("$1"), asked)
            return answer

    async def rows_telling(self, statement_name: str, /, **values: object) -> list[Record]:
        """Run a statement that reads no table, in no transaction; by `:tenants` it tells whom the session serves."""
        async with self.connection(tells=False) as connection:
            tenants, is_told = self._tenants, self._served == self._tenants
            values["tenants"] = None if is_told or tenants is None or not self._is_walled else _said(tenants)
            rows: list[Record] = await connection.fetch(*statement(statement_name).with_values(values))
            self._served = tenants
            return rows

    @asynccontextmanager
    async def connection(self, *, timeout_s: float | None = None, tells: bool = True) -> AsyncIterator[Connection]:
        """Lend the connection, opened if it is not open, and drop it if it breaks or the timeout passes."""
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                yield await self._open(tells=tells)
        except asyncpg.ClientConfigurationError as error:
            raise StatementRefused(f"the DSN can't be read: {_one_line(error)}") from error
        except _PASSING as error:
            # A value that its type can't hold: asyncpg has sent nothing.
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
            # After a cancelled statement the connection is in the middle of an answer.
            self._drop()
            raise

    @asynccontextmanager
    async def transaction(self, *, timeout_s: float | None = None) -> AsyncIterator[Connection]:
        """Lend the connection inside one transaction, committed at the end of the block."""
        async with self.connection(timeout_s=timeout_s) as connection, connection.transaction():
            around, self._in_transaction = self._in_transaction, connection
            try:
                yield connection
            finally:
                self._in_transaction = around

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
                # On another connection a statement would be done, and what the transaction did before would not.
                raise StoreUnavailable("the connection was lost within a transaction")
            self._connection = await connect(self._reveal(), self._server_settings, timeout_s=self._timeout_s)
            self._backend = self._connection.get_server_pid()
            if self._connection.get_server_version() >= TRANSACTION_TIMEOUT_SINCE:
                # A little later than the other limits: they end a statement that takes too long, and keep its session.
                await self._connection.execute(f"set transaction_timeout = {int(self._timeout_s * 1000)}")
            self._served, self._told_key_prefix = None, ""
            self._is_walled = self._tenants is not None and await self._connection.fetchval(_HAS_POLICIES)
        if self._left:
            await self._wait_for_dropped_commits(self._connection)
        if tells:
            await self._tell(self._connection)
        return self._connection

    async def _tell(self, connection: Connection) -> None:
        """Tell the server whose rows it may show, and who acts, if that is new; no transaction could take it back."""
        # Not by parameters: `set` takes none, and a statement with parameters costs twice as much, for each request.
        told = []
        if self._is_walled and self._tenants is not None and self._served != self._tenants:
            told.append(f"set shardclock.tenants = {_literal(_said(self._tenants))}")
        if self._told_key_prefix != self._key_prefix:
            told.append(f"set shardclock.key_prefix = {_literal(self._key_prefix)}")
        if told:
            tenants, key_prefix = self._tenants, self._key_prefix
            await connection.execute("; ".join(told))
            self._served, self._told_key_prefix = tenants, key_prefix

    def _reveal(self) -> str:
        try:
            return self._dsn.reveal()
        except InvalidDsn as error:  # the DSN's file may be repaired or written while we try again
            raise StoreUnavailable(str(error)) from None

    async def _wait_for_dropped_commits(self, connection: Connection) -> None:
        """Make sure that none of our commits still waits: else each retry would leave one more waiting backend."""
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


def _said(tenants: Tenants) -> str:
    """Write whom a session serves as the policies read it."""
    return "*" if tenants >= ALL_TENANTS else f"{{{','.join(map(_element, sorted(tenants)))}}}"


def _element(text: str) -> str:
    """Write an element of an array as Postgres reads it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    """Write a constant of SQL; `standard_conforming_strings` is pinned, so only quotes mean something in it."""
    return "'" + text.replace("'", "''") + "'"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
