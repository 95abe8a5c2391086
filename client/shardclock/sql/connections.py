"""Find out how a user's connection is asked. A driver is imported only once a connection of its own is given."""

from collections.abc import Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any, Protocol, overload

from shardclock.refusal import shown
from shardclock.sql.asked import DEFAULT_TENANT
from shardclock.sql.async_timers import AsyncTimers
from shardclock.sql.sync_timers import Timers


class PlainConnection(Protocol):
    """A connection or a session that is not awaited: of psycopg or of SQLAlchemy."""

    def commit(self) -> None:
        """Commit."""


class AwaitedConnection(Protocol):
    """A connection or a session that is awaited: of psycopg or of SQLAlchemy."""

    async def commit(self) -> None:
        """Commit."""


class AsyncpgConnection(Protocol):
    """A connection of asyncpg, whose transactions are objects of their own."""

    def is_in_transaction(self) -> bool:
        """Say whether a transaction is open."""


@overload
def timers(connection: PlainConnection, *, tenant: str = ...) -> Timers: ...
@overload
def timers(connection: AwaitedConnection | AsyncpgConnection, *, tenant: str = ...) -> AsyncTimers: ...
def timers(connection: Any, *, tenant: str = DEFAULT_TENANT) -> Timers | AsyncTimers:
    """Ask for timers on a connection or in a session: what is asked belongs to the transaction that is open there.

    It neither commits nor rolls back, begins no transaction and changes no setting. Outside of a transaction, where the
    connection commits each statement by itself, it does so with these, too.

    shape:   methods to be awaited if the connection's own ones are
    errors:  TypeError  it is no connection of psycopg 3 or asyncpg, and no connection or session of SQLAlchemy 2
    """
    driver = driver_of(connection)
    return AsyncTimers(driver, tenant) if iscoroutinefunction(driver.answer) else Timers(driver, tenant)


def driver_of(connection: Any) -> Any:
    """Find out how a connection is asked; its methods are awaited if the connection's own ones are.

    errors:  TypeError  it is no connection of psycopg 3 or asyncpg, and no connection or session of SQLAlchemy 2
    """
    for library in _libraries_of(type(connection)):
        if (make := DRIVERS.get(library)) is not None and (driver := make(connection)) is not None:
            return driver
    raise TypeError(
        f"{shown(connection)} is neither a connection of psycopg 3 or asyncpg nor a connection or session of SQLAlchemy"
        " 2; take one from the pool or the engine, the one that is in your transaction"
    )


def _libraries_of(kind: type) -> Iterator[str]:
    """Give the libraries that a class and its bases come from: a user's own class may have a library's as its base."""
    return (base.__module__.partition(".")[0] for base in kind.__mro__)


def _psycopg(connection: Any) -> Any:
    import psycopg

    from shardclock.sql.async_psycopg import AsyncPsycopg
    from shardclock.sql.sync_psycopg import Psycopg

    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopg(connection)
    return Psycopg(connection) if isinstance(connection, psycopg.Connection) else None


def _asyncpg(connection: Any) -> Any:
    import asyncpg

    from shardclock.sql.async_asyncpg import AsyncAsyncpg

    return AsyncAsyncpg(connection) if isinstance(connection, asyncpg.Connection) else None


def _sqlalchemy(connection: Any) -> Any:
    from shardclock.sql.async_sqlalchemy import AsyncSqlalchemy
    from shardclock.sql.sync_sqlalchemy import Sqlalchemy

    if not (hasattr(connection, "scalar") and hasattr(connection, "commit")):
        return None  # an engine, a query, a result
    return AsyncSqlalchemy(connection) if iscoroutinefunction(connection.scalar) else Sqlalchemy(connection)


DRIVERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"psycopg": _psycopg, "asyncpg": _asyncpg, "sqlalchemy": _sqlalchemy}
)
