"""Wait without an event loop: nothing is interrupted, so Postgres's own limits end a wait."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

from shardclock.log.failing import Attempt
from shardclock.log.record import LogRecord
from shardclock.sql.connections import driver_of

GIVE_BACK_S = 1.0
STOPS = (KeyboardInterrupt, SystemExit)  # they end a member
IN_THREAD = "its session has ended meanwhile"

T = TypeVar("T")
Turn: TypeAlias = Callable[[], bool]
Work: TypeAlias = Callable[[Any, Sequence[LogRecord]], None]
LeasedWork: TypeAlias = Callable[[Any], None]

Lock = threading.Lock
sleep = time.sleep


@contextmanager
def limit(within_s: float) -> Iterator[None]:
    """Bound nothing."""
    del within_s
    yield


def attempt(work: Callable[[], None], within_s: float) -> Attempt:
    """Do some work, and return the error that it raised."""
    began_s, error = time.monotonic(), None
    try:
        work()
    except Exception as raised:  # noqa: BLE001 - any error of the work is said and counted
        error = raised
    return Attempt(error, time.monotonic() - began_s >= within_s)


def finish(answer: T, undo: object = None) -> T:
    """Give an answer, which is there."""
    del undo
    return answer


def opened(connect: Callable[[], Any]) -> Any:
    """Open a connection, and give its driver.

    errors:  TypeError  it is no connection, or one that is awaited
    """
    connection = connect()
    if iscoroutine(connection):
        connection.close()  # else Python warns that nobody awaits it
    elif not isawaitable(connection) and not iscoroutinefunction((driver := driver_of(connection)).answer):
        return driver
    raise TypeError(
        "work must be `async def` on a connection that is awaited: make it so, or open a connection of psycopg.connect"
    )
