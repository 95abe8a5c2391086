"""Read the command log, and do work for each of its records, on connections of the user's own.

    async def bill(connection, records):
        for record in records:
            await connection.execute("insert into invoices ...", record.timer_key)

    await consume(lambda: asyncpg.connect(DSN), "billing", bill)

`bill` writes exactly once for each record on the connection that it is given.

    async def send(batch):
        for record in batch.records:
            await post("https://mail.example/send", record.payload)
            await batch.acknowledge(record)

    await consume_leased(lambda: asyncpg.connect(DSN), "mail", send)

No transaction is open while `send` works. The lease is renewed for as long as the work lasts. When its member dies, the
lease runs out, and another member gets the records that were not acknowledged.

    record       one event of a timer
    reading      read without a group
    groups       the statements that a member sends for its group
    consuming    work in the transaction that moves the group's place
    leasing      work under a lease, of a `batch`, which `keeping` renews
    member       turns, retries and waiting, for both ways to work
    link         the member's connection
    pace         how many records a batch has, so that its work takes about a second
    failing      how work and connections fail; `saying` writes it into the program's log
    timing       waits and limits, with an event loop and without one

Of `timing` and `keeping` both forms are written by hand, of the others `sync_…` is written from `async_…`.
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
from shardclock.log.failing import GroupDiffers, GroupDropped, LeaseLost
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
    """Do a group's work for every record, in order, until stopped; `connect` opens the connection that it works on.

    A batch has as many records as the work does in about a second. If `work` raises, the error is logged and counted,
    the batch is rolled back and tried again, after longer and longer waits; after `attempts` on one record, that record
    is set aside. As many members can work at once as the group has `partitions`; all records of a timer are in one
    partition.

    shape:   to be awaited if the work is `async def`; else it works until it is interrupted
    errors:  GroupDiffers  the group has another number of partitions
             GroupDropped  it was dropped meanwhile
             ApiError      the role lacks a right
             TypeError     the work is `async def`, and the connection is not awaited, or the other way round;
                           `connect` or the work is no function
             ValueError    the length of the group's name, `partitions` or `attempts` is not possible
             others        of the driver: the connection can't be opened, and another try would not help
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
    """Do a group's work for every record, in order, each at least once, until stopped.

    When `work` ends, its batch is acknowledged. If it raises, the error is logged and counted, and the records that
    were not acknowledged are tried again; after `attempts` on one record, that record is set aside. If a member dies
    while it works on one record alone, that is an attempt too.

    shape, errors:  as those of `consume`
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
    """Do a group's work for the next records on a connection, in a transaction that moves the group's place.

    shape:   how many records, to be awaited if the connection is; 0 if there are none, or if other members have them
    errors:  TypeError  the connection is in a transaction
             others     of the work and of the driver: the transaction is rolled back
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
    """Read the records after a position that the reader keeps itself; 0 reads from the beginning.

    Write the position in the transaction in which you do the work, and each record is done once.

    shape:   in order, to be awaited if the connection is; empty: there are no more now
    errors:  Conflict  the transaction is not `read committed`
             others    of the driver
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
