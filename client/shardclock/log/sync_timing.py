"""Wait without an event loop. A wait can't be interrupted, so Postgres's timeouts end the wait."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

from shardclock.log.failures import WorkResult
from shardclock.log.record import LogRecord
from shardclock.sql.connections import driver_of

GIVE_BACK_S = 1.0
STOPS = (KeyboardInterrupt, SystemExit)  # the exceptions that end a member
IN_THREAD = "its session has ended meanwhile"

T = TypeVar("T")
Turn: TypeAlias = Callable[[], bool]
Work: TypeAlias = Callable[[Any, Sequence[LogRecord]], None]
LeasedWork: TypeAlias = Callable[[Any], None]

Lock = threading.Lock
sleep = time.sleep


@contextmanager
def limit(within_s: float) -> Iterator[None]:
    """Set no timeout."""
    del within_s
    yield


def attempt(work: Callable[[], None], within_s: float) -> WorkResult:
    """Do some work, and return the error that it raised."""
    began_s, error = time.monotonic(), None
    try:
        work()
    except Exception as raised:  # noqa: BLE001 - any error of the work is logged and counted
        error = raised
    return WorkResult(error, time.monotonic() - began_s >= within_s)


def finish(answer: T, undo: object = None) -> T:
    """Return the answer."""
    del undo
    return answer


def opened(connect: Callable[[], Any]) -> Any:
    """Open a connection, and return its driver.

    errors:  TypeError  `connect` returned no connection, or a connection with methods that are awaited
    """
    connection = connect()
    if iscoroutine(connection):
        connection.close()  # Python warns if a coroutine is never awaited or closed
    elif not isawaitable(connection) and not iscoroutinefunction((driver := driver_of(connection)).answer):
        return driver
    raise TypeError(
        "work must be `async def` on a connection that is awaited: make it so, or open a connection of psycopg.connect"
    )
