"""Wait, with timeouts, in an event loop; `sync_timing` has the same functions for programs without an event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

from shardclock.log.failures import WorkCancelled, WorkResult
from shardclock.log.record import LogRecord
from shardclock.sql.connections import driver_of

GIVE_BACK_S = 1.0  # The timeout of one statement; a working Postgres answers in milliseconds.
STOPS = asyncio.CancelledError  # The exception that ends a member.
IN_THREAD = "run blocking code in asyncio.to_thread"

T = TypeVar("T")
AsyncTurn: TypeAlias = Callable[[], Awaitable[bool]]
AsyncWork: TypeAlias = Callable[[Any, Sequence[LogRecord]], Awaitable[None]]
AsyncLeasedWork: TypeAlias = Callable[[Any], Awaitable[None]]

Lock = asyncio.Lock
limit = asyncio.timeout
sleep = asyncio.sleep


async def attempt(work: Callable[[], Awaitable[None]], within_s: float) -> WorkResult:
    """Await `work`, and return its error; a stop of the member raises CancelledError.

    errors:  CancelledError  the member is stopped
    """
    task, began_s, bound = asyncio.current_task(), time.monotonic(), limit(within_s)
    assert task is not None
    asked = task.cancelling()
    error: Exception | None = None
    try:
        async with bound:
            await work()
    except asyncio.CancelledError:
        if task.cancelling() > asked:
            raise
        error = WorkCancelled()
    except Exception as raised:  # noqa: BLE001 - any error of the work is logged and counted
        error = raised
    # Compare the measured duration, because a timeout can't interrupt work that blocks the event loop.
    return WorkResult(error, bound.expired() or time.monotonic() - began_s >= within_s)


async def finish(asking: Awaitable[T], undo: Callable[[T], Awaitable[None]] | None = None) -> T:
    """Wait for an answer. After a cancellation, wait a little longer, and call `undo` if the answer arrives."""
    asked = asyncio.ensure_future(asking)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait({asked}, timeout=GIVE_BACK_S)
        if undo is not None and asked.done() and not asked.cancelled() and not asked.exception():
            await undo(asked.result())
        asked.cancel()
        raise


async def opened(connect: Callable[[], Any]) -> Any:
    """Open a connection, and return its driver.

    errors:  TypeError  `connect` returned no connection, or a connection with methods that are not awaited
    """
    connection = connect()
    driver = driver_of(await connection if isawaitable(connection) else connection)
    if not iscoroutinefunction(driver.answer):
        raise TypeError(
            "the work is `async def`, and its connection is not awaited: open a connection of asyncpg or"
            " psycopg.AsyncConnection, or let the work be a plain function"
        )
    return driver
