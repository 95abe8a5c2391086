"""Run statements on connections that stay open between calls.

A new connection costs Postgres and Python several times as much as a test's statement. The connections belong to a
separate thread with a separate loop, so they outlive the loop of the test. No two statements share a connection.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

import asyncpg

T = TypeVar("T")
BOUND_S = 60.0  # the time limit of each statement on these connections
KEPT_MAX = 3  # connections of one role to one database; a server permits 200 in total
# Statements that don't change their session. Any other statement gets a connection that is then closed.
LEAVES_NOTHING = re.compile(
    r"(\s|--[^\n]*\n)*(delete|insert|select|truncate|update|with)\b(?!.*(advisory_lock|set_config))", re.DOTALL
)
# Statements that affect later sessions, or need a database without connections.
FOR_NEW_SESSIONS = re.compile(r"\s*((alter|create|drop)\s+(database|role|system)|select pg_reload_conf)\b")

# Errors of a statement while Postgres or its objects are missing.
AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

_idle: defaultdict[str, list[asyncpg.Connection]] = defaultdict(list)


async def fetch(dsn: str, text: str, *args: Any) -> list[asyncpg.Record]:
    """Run one statement on a connection that no other call uses at that time."""

    async def ask(connection: asyncpg.Connection) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await connection.fetch(text, *args, timeout=BOUND_S)
        return rows

    async def answer() -> list[asyncpg.Record]:
        if FOR_NEW_SESSIONS.match(text):
            _close_idle(lambda _: True)
        return await _on_connection(dsn, ask, keep=LEAVES_NOTHING.match(text) is not None)

    return await asyncio.wrap_future(_submit(answer()))


def start(dsn: str, *statements: str) -> Future[None]:
    """Begin statements, one after the other, that don't change their session."""

    async def ask(connection: asyncpg.Connection) -> None:
        for statement in statements:
            await connection.execute(statement, timeout=BOUND_S)

    return _submit(_on_connection(dsn, ask, keep=True))


def close_those_to(dsn: str) -> None:
    """Close the connections of all roles to a database; the call blocks the caller's loop."""

    async def close() -> None:
        _close_idle(lambda kept: _database(kept) == _database(dsn))

    _submit(close()).result()


async def _on_connection(dsn: str, ask: Callable[[asyncpg.Connection], Awaitable[T]], *, keep: bool) -> T:
    connection = await _open(dsn)
    try:
        answer = await ask(connection)
    except BaseException:
        connection.terminate()
        raise
    if keep and len(_idle[dsn]) < KEPT_MAX:
        _idle[dsn].append(connection)
    else:
        await connection.close(timeout=BOUND_S)
    return answer


async def _open(dsn: str) -> asyncpg.Connection:
    while kept := _idle[dsn]:
        connection = kept.pop()
        if not connection.is_closed():  # its backend or its server may have been killed
            return connection
    # No prepared statement is cached, because a test may change the statement's tables.
    settings = {"timezone": "UTC"}
    return await asyncpg.connect(dsn, timeout=BOUND_S, statement_cache_size=0, server_settings=settings)


def _close_idle(which: Callable[[str], bool]) -> None:
    for dsn in list(filter(which, _idle)):
        for connection in _idle.pop(dsn):
            connection.terminate()


def _database(dsn: str) -> str:
    return dsn.partition("@")[2]


def _submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(work, _loop())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="connections of tests", daemon=True).start()
    return loop
