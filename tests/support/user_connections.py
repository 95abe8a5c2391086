"""Connections and sessions as users open them with each library, with and without an event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from shardclock.sql import timers
from tests.support.factories import BOUND_S


class UserConnection(ABC):
    """A user's connection or session, in a transaction."""

    def __init__(self, connection: Any, tenant: str = "default") -> None:
        self.connection = connection
        self.tenant = tenant

    async def ask(self, method: str, **fields: Any) -> Any:
        """Call a method of the client, and await an awaitable result."""
        return await settled(getattr(timers(self.connection, tenant=self.tenant), method)(**fields))

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of the user in the same transaction."""
        return [tuple(row) for row in await self._rows(statement)]

    async def commit(self) -> None:
        await settled(self.connection.commit())

    async def rollback(self) -> None:
        await settled(self.connection.rollback())

    @abstractmethod
    async def _rows(self, statement: str) -> Any: ...

    @abstractmethod
    def count(self, patch: Any) -> Callable[[], int]:
        """Begin to count the sent statements; the returned function gives the count."""


class OfPsycopg(UserConnection):
    """A connection of psycopg."""

    async def _rows(self, statement: str) -> Any:
        cursor = await settled(self.connection.execute(statement))
        return await settled(cursor.fetchall()) if cursor.description else []

    def count(self, patch: Any) -> Callable[[], int]:
        sent: list[Any] = []
        kind = psycopg.Cursor if isinstance(self.connection, psycopg.Connection) else psycopg.AsyncCursor
        execute = kind.execute

        def counted(self: Any, *args: Any, **more: Any) -> Any:
            sent.append(args)
            return execute(self, *args, **more)

        patch.setattr(kind, "execute", counted)
        return lambda: len(sent)


class OfAsyncpg(UserConnection):
    """A connection of asyncpg, in a transaction that is a separate object."""

    def __init__(self, connection: Any, tenant: str = "default") -> None:
        super().__init__(connection, tenant)
        self._transaction: Any = None

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()
        await self.begin()

    async def rollback(self) -> None:
        await self._transaction.rollback()
        await self.begin()

    async def _rows(self, statement: str) -> Any:
        return await self.connection.fetch(statement)

    def count(self, patch: Any) -> Callable[[], int]:
        del patch  # asyncpg's own logger reports the statements
        sent: list[Any] = []
        self.connection.add_query_logger(sent.append)
        return lambda: len(sent)


class OfSqlalchemy(UserConnection):
    """A connection or a session of SQLAlchemy; `engine` is the engine without an event loop, because only this engine
    has events.
    """

    def __init__(self, connection: Any, tenant: str = "default", *, engine: Any = None) -> None:
        super().__init__(connection, tenant)
        self._engine = engine

    async def _rows(self, statement: str) -> Any:
        result = await settled(self.connection.execute(sqlalchemy.text(statement.replace(":", r"\:"))))
        return result.all() if result.returns_rows else []

    def count(self, patch: Any) -> Callable[[], int]:
        del patch  # SQLAlchemy's own event reports the statements
        sent: list[Any] = []
        event.listen(self._engine, "before_cursor_execute", lambda *told: sent.append(told))
        return lambda: len(sent)


async def settled(answer: Any) -> Any:
    return await answer if isawaitable(answer) else answer


@asynccontextmanager
async def psycopg_plain(dsn: str) -> AsyncIterator[UserConnection]:
    with psycopg.connect(dsn) as connection:
        yield OfPsycopg(connection)
        connection.rollback()


@asynccontextmanager
async def psycopg_async(dsn: str) -> AsyncIterator[UserConnection]:
    """Open a connection of psycopg with an event loop."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield OfPsycopg(connection)
        await connection.rollback()


@asynccontextmanager
async def asyncpg_alone(dsn: str) -> AsyncIterator[UserConnection]:
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        user = OfAsyncpg(connection)
        await user.begin()
        yield user
    finally:
        await connection.close(timeout=BOUND_S)


@asynccontextmanager
async def asyncpg_pooled(dsn: str) -> AsyncIterator[UserConnection]:
    """Take a connection from a pool of asyncpg's, which returns a proxy."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        user = OfAsyncpg(connection)
        await user.begin()
        yield user
        await user._transaction.rollback()


@asynccontextmanager
async def sqlalchemy_connection(dsn: str) -> AsyncIterator[UserConnection]:
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with engine.connect() as connection:
        yield OfSqlalchemy(connection, engine=engine)
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(dsn: str) -> AsyncIterator[UserConnection]:
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with Session(engine) as session:
        yield OfSqlalchemy(session, engine=engine)
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_connection(dsn: str) -> AsyncIterator[UserConnection]:
    """Open a connection of SQLAlchemy with an event loop, over psycopg."""
    engine = create_async_engine("postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(dsn))
    async with engine.connect() as connection:
        assert isinstance(connection, AsyncConnection)
        yield OfSqlalchemy(connection, engine=engine.sync_engine)
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_session(dsn: str) -> AsyncIterator[UserConnection]:
    """Open a session of SQLAlchemy with an event loop, over asyncpg."""
    engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn))
    async with AsyncSession(engine) as session:
        yield OfSqlalchemy(session, engine=engine.sync_engine)
    await engine.dispose()


KINDS = (
    psycopg_plain, psycopg_async, asyncpg_alone, asyncpg_pooled, sqlalchemy_connection, sqlalchemy_session,
    sqlalchemy_async_connection, sqlalchemy_async_session,
)  # fmt: skip
