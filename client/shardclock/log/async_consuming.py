"""Process each record of the log in the transaction that moves the group's position: exactly once, in Postgres."""

import time
from collections.abc import Sequence
from typing import Any

from shardclock.log.async_groups import advance_partition, open_group, read_start, take_partition
from shardclock.log.async_link import AsyncHeld, AsyncLink
from shardclock.log.async_member import WORK_S, AsyncMember
from shardclock.log.async_reading import READ_MAX, read_partition
from shardclock.log.async_timing import IN_THREAD, AsyncWork, attempt, limit
from shardclock.log.failures import (
    ConnectionLost,
    TransactionEnded,
    WorkFailed,
    WorkLost,
    WorkTooSlow,
    error_text,
    is_passing,
)
from shardclock.log.partition import PartitionState
from shardclock.log.record import LogPage, LogRecord

ANSWER_S = 5.0  # the timeout of this module's statements; the work has a separate timeout
SAVEPOINT = "shardclock_read"


async def consume(member: AsyncMember, work: AsyncWork) -> None:
    """Call `work` for every record, in order, until stopped."""

    async def turn() -> bool:
        began_s = time.monotonic()
        try:
            done = await _work_once(member.link, AsyncRound(member.group, work, member.pace.records))
        except WorkFailed as failure:
            await member.fail(failure)
            return True
        if done:
            member.pace.done(done, time.monotonic() - began_s)
        return done is not None

    await member.run(turn)


async def consume_once(driver: AsyncHeld, group: str, work: AsyncWork, *, limit: int = READ_MAX) -> int:
    """Call `work` for the next records on one connection, in a transaction that moves the group's position."""
    if driver.is_in_transaction:
        raise TypeError("consume_once begins its own transaction: end the open transaction of the connection first")
    # Register the group in a separate transaction. Otherwise a second member would wait for the first member's batch.
    async with driver.transaction():
        partitions = await open_group(driver, group)
    for _ in range(partitions):
        done = await _do_alone(driver, AsyncRound(group, work, limit))
        if done != 0:
            return done or 0
        # The partition has no records, and its position is at the horizon now; try the next partition.
    return 0


async def _do_alone(driver: AsyncHeld, taken: "AsyncRound") -> int | None:
    try:
        async with driver.transaction():
            return await taken.do(driver)
    except WorkFailed as failure:
        error = failure.error
    raise error


async def _work_once(link: AsyncLink, taken: "AsyncRound") -> int | None:
    """Work on the free partition with the oldest unread record; return None if no free partition has records."""
    try:
        async with link.transaction() as driver:
            return await taken.do(driver)
    except Exception as error:
        is_lost = link.is_lost and not isinstance(error, TimeoutError)
        verdict = await taken.verdict(link, error, is_lost=is_lost)
        if verdict is error:
            raise
        raise verdict from error


async def _read(driver: AsyncHeld, state: PartitionState, size: int) -> LogPage:
    """Read the log in a savepoint that is rolled back.

    A read locks all daily partitions of the log until the transaction ends, so no daily partition could be created or
    dropped during the work. The rollback of the savepoint releases these locks, but not the earlier lock on the group's
    partition.
    """
    await driver.run(f"savepoint {SAVEPOINT}")
    page = await read_partition(driver, state, size)
    await driver.run(f"rollback to savepoint {SAVEPOINT}")
    return page


class AsyncRound:
    """Work on one batch in the transaction that moves the group's position.

    After an error, `verdict` decides whether the work or Postgres was the cause.
    """

    def __init__(self, group: str, work: AsyncWork, size: int) -> None:
        self._group, self._work, self._size = group, work, size
        self._state: PartitionState | None = None
        self._records: Sequence[LogRecord] = ()
        self._began_on: float | None = None  # the start time of the server on which the work started
        self._error: Exception | None = None
        self._moved = False

    async def do(self, driver: AsyncHeld) -> int | None:
        """Lock a partition, read a batch, call the work, and move the position; return the number of records."""
        found = await take_partition(driver, self._group)
        if found is None:
            return None
        transaction, started_at = found.pop("transaction"), found.pop("started_at")
        self._state = state = PartitionState(group=self._group, **found)
        # A failed record is retried in a separate batch, so that its failure does not undo the work on other records.
        size = 1 if state.attempts else self._size
        page = await _read(driver, state, size)
        self._records = records = page.records
        end = state.end_of([record.position for record in records], full=page.is_full)
        if records:
            self._began_on = started_at
            await self._try(driver.connection)
        self._moved = await advance_partition(driver, state, end, worked=bool(records), transaction=transaction)
        if not self._moved:
            self._error = TransactionEnded(
                "the work ended the consumer's transaction, so its writes can't be rolled back: leave commit and"
                " rollback to the consumer; for a part that may fail, use a savepoint, `connection.transaction()`"
            )
            raise self._failed(self._error)
        return len(records)

    async def verdict(self, link: AsyncLink, error: Exception, *, is_lost: bool) -> Exception:
        """Return the error for the caller: a failure of the work, or a failure of Postgres."""
        if self._began_on is None or isinstance(self._error, WorkTooSlow | TransactionEnded):
            return self._failed(self._error) if self._error else error
        is_lost |= any(getattr(it, "connection_invalidated", False) for it in (error, self._error))
        if self._moved or not is_lost:
            return self._failed(self._error or error) if self._error or not is_passing(error) else error
        cause = self._error or error
        if not await _runs_since(link, self._began_on):
            return ConnectionLost(f"the connection was lost during the work: {error_text(cause)}")
        return self._failed(WorkLost(f"the work lost its connection, although Postgres answers: {error_text(cause)}"))

    async def _try(self, connection: Any) -> None:
        self._error, is_late = await attempt(lambda: self._work(connection, self._records), WORK_S)
        if is_late:
            self._error = WorkTooSlow(
                f"work on {len(self._records)} record(s) took longer than the limit of a transaction, {WORK_S:g} s: do"
                f" it under a lease (consume_leased), and {IN_THREAD}"
            )
        if self._error:
            raise self._failed(self._error)

    def _failed(self, error: Exception) -> WorkFailed:
        assert self._state is not None
        return WorkFailed(self._state, self._records, error)


async def _runs_since(link: AsyncLink, started_at: float) -> bool:
    """Return whether the server has run since this time; False: Postgres was restarted or replaced."""
    try:
        async with limit(ANSWER_S):
            return await read_start(link) == started_at
    except Exception as error:
        if not is_passing(error):
            raise
        return False
