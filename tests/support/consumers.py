"""Run consumers during a test, and give them records to work on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import asyncpg

from shardclock import log
from shardclock.log.group_log import LOGGER
from shardclock_server.sql.log.groups import Group, list_groups
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query
from tests.support.roles import as_role

LOG_COLUMNS = "timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target"
APPEND = (
    f"insert into shardclock.command_log ({LOG_COLUMNS})"
    " select k, now(), now(), 1, 'TRIGGERED', 'default', 'USER', 'log'"
    " from unnest($1::bigint[]) with ordinality as u (k, n) order by n returning position"
)


def connecting(dsn: str) -> Callable[[], Any]:
    """Return a function that opens a connection, as the author of a consumer would write it."""
    return lambda: asyncpg.connect(dsn, timeout=BOUND_S)


def consume(dsn: str, group: str, work: Any, **more: Any) -> Any:
    return log.consume(connecting(dsn), group, work, **more)


def consume_leased(dsn: str, group: str, work: Any, **more: Any) -> Any:
    """Consume under a lease, on connections of asyncpg."""
    return log.consume_leased(connecting(dsn), group, work, **more)


async def consume_once(session: Session, group: str, work: Any, **more: Any) -> int:
    async with session.connection() as connection:
        pass  # the connection's own errors are raised unchanged
    return await log.consume_once(connection, group, work, **more)


def member_session(dsn: str) -> Session:
    return Session(as_role(dsn, "consumer"), application="test", timeout_s=BOUND_S, inherits=("search_path",))


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Collect the lines that consumers write into the program's log: event, log_level, and the fields."""
    lines: list[dict[str, Any]] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told = record.__dict__
            lines.append({"event": told["event"], "log_level": record.levelname.lower(), **told["fields"]})

    collector, level = Collector(), LOGGER.level
    LOGGER.addHandler(collector)
    LOGGER.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        LOGGER.removeHandler(collector)
        LOGGER.setLevel(level)


async def append(dsn: str, *keys: int) -> list[int]:
    """Append a record for each key; return their positions."""
    return sorted(row["position"] for row in await query(dsn, APPEND, list(keys)))


@asynccontextmanager
async def consuming(*consumers: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run consumers during a block; if a consumer has failed, raise its exception when the block ends."""
    tasks = [asyncio.create_task(consumer) for consumer in consumers]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def until(condition: Any, *tasks: asyncio.Task[None]) -> None:
    """Wait for a limited time until a condition is true; fail if a consumer ends."""
    async with asyncio.timeout(BOUND_S):
        while not condition():
            for task in tasks:
                assert not task.done(), task
            await asyncio.sleep(0.005)


async def group_of(dsn: str, name: str = "g") -> Group:
    async with Session(as_role(dsn, "reader"), application="test") as session:
        return next(it for it in await list_groups(session) if it.group_name == name)
