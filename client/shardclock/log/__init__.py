"""Read the command log, and process each of its records, on the user's own connections.

    async def bill(connection, records):
        for record in records:
            await connection.execute("insert into invoices ...", record.timer_key)

    await consume(lambda: asyncpg.connect(DSN), "billing", bill)

`bill` writes on the connection that `consume` passes, so the writes take effect exactly once for each record.

    async def send(batch):
        for record in batch.records:
            await post("https://mail.example/send", record.payload)
            await batch.acknowledge(record)

    await consume_leased(lambda: asyncpg.connect(DSN), "mail", send)

No transaction is open while `send` works. The member renews the lease of the batch during the work. If the member dies,
the lease expires, and another member gets the records that were not acknowledged.

    record:       one event of a timer
    reading:      read the log without a group
    groups:       the statements that a member sends for its group
    consuming:    work in the transaction that moves the group's position
    leasing:      work under the lease of a `batch`, which `keeping` renews
    member:       the loop of a member, with retries and waits
    link:         the member's connection
    pace:         the size of a batch, so that its work takes about a second
    failures:     failures of the work and of connections; `group_log` logs them
    timing:       waits and timeouts

Both forms of `timing` and `keeping` are written by hand; `make docs` writes the other `sync_…` files from `async_…`.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, overload

from shardclock.log import async_consuming, async_leasing, async_reading, sync_consuming, sync_leasing, sync_reading
from shardclock.log.async_batch import AsyncBatch
from shardclock.log.async_leasing import LEASE_S
from shardclock.log.async_member import AsyncMember
from shardclock.log.async_reading import READ_MAX
from shardclock.log.failures import GroupDiffers, GroupDropped, LeaseLost
from shardclock.log.record import LogRecord
from shardclock.log.sync_batch import Batch
from shardclock.log.sync_member import Member
from shardclock.sql.connections import AsyncpgConnection, AwaitedConnection, PlainConnection, driver_of

Connect = Callable[[], Any]
Coro = Coroutine[Any, Any, None]

__all__ = [
    "AsyncBatch",
    "Batch",
    "GroupDiffers",
    "GroupDropped",
    "LeaseLost",
    "LogRecord",
    "consume",
    "consume_leased",
    "consume_once",
    "log_end",
    "read_log",
]


@overload
def consume(
    connect: Connect,
    group: str,
    work: Callable[[Any, Sequence[LogRecord]], Coro],
    *,
    partitions: int | None = ...,
    attempts: int | None = ...,
) -> Coro: ...
@overload
def consume(
    connect: Connect,
    group: str,
    work: Callable[[Any, Sequence[LogRecord]], None],
    *,
    partitions: int | None = ...,
    attempts: int | None = ...,
) -> None: ...
def consume(
    connect: Connect, group: str, work: Any, *, partitions: int | None = None, attempts: int | None = None
) -> Coro | None:
    """Call `work` for every record of the log, in order, until stopped; `connect` opens the connection.

    A batch has as many records as `work` handles in about a second. If `work` raises an exception, the member logs the
    error, rolls the batch back, and retries after growing pauses. After `attempts` failures of one record, the record
    is stored in the table `records_aside` and skipped. Each partition has one working member at a time, so `partitions`
    limits the concurrent members. All records of a timer are in one partition.

    shape:   an awaitable if `work` is `async def`; otherwise the call returns only when it is interrupted
    errors:  GroupDiffers  the group has another number of partitions.
             GroupDropped  the group was dropped meanwhile.
             ApiError      the role lacks a right.
             TypeError     only one of `work` and the connection is async; or `connect` or `work` is not a function.
             ValueError    the group's name is too long or empty, or `partitions` or `attempts` is out of range.
             Exception     an error of the driver: the connection can't be opened, and a retry would not help.
    """
    if _is_awaited(work):
        return async_consuming.consume(AsyncMember(connect, group, partitions=partitions, attempts=attempts), work)
    sync_consuming.consume(Member(connect, group, partitions=partitions, attempts=attempts), work)
    return None


@overload
def consume_leased(
    connect: Connect,
    group: str,
    work: Callable[[AsyncBatch], Coro],
    *,
    partitions: int | None = ...,
    attempts: int | None = ...,
    lease_s: float = ...,
) -> Coro: ...
@overload
def consume_leased(
    connect: Connect,
    group: str,
    work: Callable[[Batch], None],
    *,
    partitions: int | None = ...,
    attempts: int | None = ...,
    lease_s: float = ...,
) -> None: ...
def consume_leased(
    connect: Connect,
    group: str,
    work: Any,
    *,
    partitions: int | None = None,
    attempts: int | None = None,
    lease_s: float = LEASE_S,
) -> Coro | None:
    """Call `work` at least once for every record of the log, in order, until stopped.

    The member acknowledges a batch when `work` returns. If `work` raises an exception, the member logs the error and
    retries the unacknowledged records. After `attempts` failures of one record, the record is stored in `records_aside`
    and skipped. The death of a member during its work on a single record counts as a failure.

    shape, errors:  as in `consume`
    """
    if _is_awaited(work):
        member = AsyncMember(connect, group, partitions=partitions, attempts=attempts)
        return async_leasing.consume_leased(member, work, lease_s)
    sync_leasing.consume_leased(Member(connect, group, partitions=partitions, attempts=attempts), work, lease_s)
    return None


@overload
def consume_once(
    connection: PlainConnection,
    group: str,
    work: Callable[[Any, Sequence[LogRecord]], None],
    *,
    limit: int = ...,
) -> int: ...
@overload
def consume_once(
    connection: AwaitedConnection | AsyncpgConnection,
    group: str,
    work: Callable[[Any, Sequence[LogRecord]], Coro],
    *,
    limit: int = ...,
) -> Coroutine[Any, Any, int]: ...
def consume_once(connection: Any, group: str, work: Any, *, limit: int = READ_MAX) -> Any:
    """Call `work` for the next records on a connection, in a transaction that moves the group's position.

    shape:   the number of records, awaited if the connection's methods are awaited; 0 if no free partition has records
    errors:  TypeError  the connection is in a transaction.
             Exception  an error of `work` or of the driver: the transaction is rolled back.
    """
    driver = driver_of(connection)
    return (async_consuming if _is_awaited(driver.answer) else sync_consuming).consume_once(
        driver, group, work, limit=limit
    )


@overload
def read_log(connection: PlainConnection, after: int = ..., *, limit: int = ...) -> list[LogRecord]: ...
@overload
def read_log(
    connection: AwaitedConnection | AsyncpgConnection, after: int = ..., *, limit: int = ...
) -> Coroutine[Any, Any, list[LogRecord]]: ...
def read_log(connection: Any, after: int = 0, *, limit: int = READ_MAX) -> Any:
    """Read the records after a position that the reader stores itself; 0 reads from the beginning.

    If the reader stores the position in the transaction that does the work, it processes each record exactly once.

    shape:   the records in order, awaited if the connection's methods are awaited; empty: there are no further records
             now
    errors:  Conflict   the transaction is not `read committed`.
             Exception  an error of the driver.
    """
    driver = driver_of(connection)
    return (async_reading if _is_awaited(driver.answer) else sync_reading).read_log(driver, after, limit=limit)


@overload
def log_end(connection: PlainConnection) -> int: ...
@overload
def log_end(connection: AwaitedConnection | AsyncpgConnection) -> Coroutine[Any, Any, int]: ...
def log_end(connection: Any) -> Any:
    """Find the position up to which all records are readable now."""
    driver = driver_of(connection)
    return (async_reading if _is_awaited(driver.answer) else sync_reading).log_end(driver)


def _is_awaited(work: Callable[..., object]) -> bool:
    if not callable(work):
        raise TypeError(f"work is a {type(work).__name__}: give a function")
    bare = inspect.unwrap(work.func if isinstance(work, functools.partial) else work)
    bare = getattr(bare, "__func__", bare)
    return inspect.iscoroutinefunction(bare if inspect.isroutine(bare) else type(bare).__call__)
