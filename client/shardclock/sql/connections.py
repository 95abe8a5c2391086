"""Find the driver of a user's connection. A library is imported only if the connection belongs to the library."""

from collections.abc import Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any, Protocol, overload

from shardclock.refusal import shown
from shardclock.sql.arguments import DEFAULT_TENANT
from shardclock.sql.async_timers import AsyncTimers
from shardclock.sql.sync_timers import Timers


class PlainConnection(Protocol):
    """A connection or session of psycopg or SQLAlchemy with methods that are not awaited."""

    def commit(self) -> None:
        """Commit."""


class AwaitedConnection(Protocol):
    """A connection or session of psycopg or SQLAlchemy with methods that are awaited."""

    async def commit(self) -> None:
        """Commit."""


class AsyncpgConnection(Protocol):
    """A connection of asyncpg: its transactions are separate objects."""

    def is_in_transaction(self) -> bool:
        """Return whether a transaction is open."""


@overload
def timers(connection: PlainConnection, *, tenant: str = ...) -> Timers: ...
@overload
def timers(connection: AwaitedConnection | AsyncpgConnection, *, tenant: str = ...) -> AsyncTimers: ...
def timers(connection: Any, *, tenant: str = DEFAULT_TENANT) -> Timers | AsyncTimers:
    """Return the methods for timers on a connection or in a session; the methods use the open transaction.

    The methods never begin, commit or roll back a transaction, and change no setting. In autocommit mode, Postgres
    commits each statement.

    shape:   the methods are asynchronous if the connection is asynchronous
    errors:  TypeError  `connection` is of no supported class: psycopg 3, asyncpg or SQLAlchemy 2
    """
    driver = driver_of(connection)
    return AsyncTimers(driver, tenant) if iscoroutinefunction(driver.answer) else Timers(driver, tenant)


def driver_of(connection: Any) -> Any:
    """Return the driver of a connection; the driver is asynchronous if the connection is asynchronous.

    errors:  TypeError  `connection` is of no supported class: psycopg 3, asyncpg or SQLAlchemy 2
    """
    for library in _libraries_of(type(connection)):
        if (make := DRIVERS.get(library)) is not None and (driver := make(connection)) is not None:
            return driver
    raise TypeError(
        f"{shown(connection)} is not a connection of psycopg 3 or asyncpg, and not a connection or session of"
        " SQLAlchemy 2; pass the connection or session of your transaction, not the pool or the engine"
    )


def _libraries_of(kind: type) -> Iterator[str]:
    """List the libraries that define a class and its bases. A user's class may derive from a library's class."""
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
        return None  # the object is for example an engine, a query or a result
    return AsyncSqlalchemy(connection) if iscoroutinefunction(connection.scalar) else Sqlalchemy(connection)


DRIVERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"psycopg": _psycopg, "asyncpg": _asyncpg, "sqlalchemy": _sqlalchemy}
)
