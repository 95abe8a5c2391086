# `make docs` writes this file from async_consuming.py: change that file, and run `make docs`.
"""Process each record of the log in the transaction that moves the group's position: exactly once, in Postgres."""

import time
from collections.abc import Sequence
from typing import Any

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
from shardclock.log.sync_groups import advance_partition, open_group, read_start, take_partition
from shardclock.log.sync_link import Held, Link
from shardclock.log.sync_member import WORK_S, Member
from shardclock.log.sync_reading import READ_MAX, read_partition
from shardclock.log.sync_timing import IN_THREAD, Work, attempt, limit

ANSWER_S = 5.0  # the timeout of this module's statements; the work has a separate timeout
SAVEPOINT = "shardclock_read"


def consume(member: Member, work: Work) -> None:
    """Call `work` for every record, in order, until stopped."""

    def turn() -> bool:
        began_s = time.monotonic()
        try:
            done = _work_once(member.link, Round(member.group, work, member.pace.records))
        except WorkFailed as failure:
            member.fail(failure)
            return True
        if done:
            member.pace.done(done, time.monotonic() - began_s)
        return done is not None

    member.run(turn)


def consume_once(driver: Held, group: str, work: Work, *, limit: int = READ_MAX) -> int:
    """Call `work` for the next records on one connection, in a transaction that moves the group's position."""
    if driver.is_in_transaction:
        raise TypeError("consume_once begins its own transaction: end the open transaction of the connection first")
    # Register the group in a separate transaction. Otherwise a second member would wait for the first member's batch.
    with driver.transaction():
        partitions = open_group(driver, group)
    for _ in range(partitions):
        done = _do_alone(driver, Round(group, work, limit))
        if done != 0:
            return done or 0
        # The partition has no records, and its position is at the horizon now; try the next partition.
    return 0


def _do_alone(driver: Held, taken: "Round") -> int | None:
    try:
        with driver.transaction():
            return taken.do(driver)
    except WorkFailed as failure:
        error = failure.error
    raise error


def _work_once(link: Link, taken: "Round") -> int | None:
    """Work on the free partition with the oldest unread record; return None if no free partition has records."""
    try:
        with link.transaction() as driver:
            return taken.do(driver)
    except Exception as error:
        is_lost = link.is_lost and not isinstance(error, TimeoutError)
        verdict = taken.verdict(link, error, is_lost=is_lost)
        if verdict is error:
            raise
        raise verdict from error


def _read(driver: Held, state: PartitionState, size: int) -> LogPage:
    """Read the log in a savepoint that is rolled back.

    A read locks all daily partitions of the log until the transaction ends, so no daily partition could be created or
    dropped during the work. The rollback of the savepoint releases these locks, but not the earlier lock on the group's
    partition.
    """
    driver.run(f"savepoint {SAVEPOINT}")
    page = read_partition(driver, state, size)
    driver.run(f"rollback to savepoint {SAVEPOINT}")
    return page


class Round:
    """Work on one batch in the transaction that moves the group's position.

    After an error, `verdict` decides whether the work or Postgres was the cause.
    """

    def __init__(self, group: str, work: Work, size: int) -> None:
        self._group, self._work, self._size = group, work, size
        self._state: PartitionState | None = None
        self._records: Sequence[LogRecord] = ()
        self._began_on: float | None = None  # the start time of the server on which the work started
        self._error: Exception | None = None
        self._moved = False

    def do(self, driver: Held) -> int | None:
        """Lock a partition, read a batch, call the work, and move the position; return the number of records."""
        found = take_partition(driver, self._group)
        if found is None:
            return None
        transaction, started_at = found.pop("transaction"), found.pop("started_at")
        self._state = state = PartitionState(group=self._group, **found)
        # A failed record is retried in a separate batch, so that its failure does not undo the work on other records.
        size = 1 if state.attempts else self._size
        page = _read(driver, state, size)
        self._records = records = page.records
        end = state.end_of([record.position for record in records], full=page.is_full)
        if records:
            self._began_on = started_at
            self._try(driver.connection)
        self._moved = advance_partition(driver, state, end, worked=bool(records), transaction=transaction)
        if not self._moved:
            self._error = TransactionEnded(
                "the work ended the consumer's transaction, so its writes can't be rolled back: leave commit and"
                " rollback to the consumer; for a part that may fail, use a savepoint, `connection.transaction()`"
            )
            raise self._failed(self._error)
        return len(records)

    def verdict(self, link: Link, error: Exception, *, is_lost: bool) -> Exception:
        """Return the error for the caller: a failure of the work, or a failure of Postgres."""
        if self._began_on is None or isinstance(self._error, WorkTooSlow | TransactionEnded):
            return self._failed(self._error) if self._error else error
        is_lost |= any(getattr(it, "connection_invalidated", False) for it in (error, self._error))
        if self._moved or not is_lost:
            return self._failed(self._error or error) if self._error or not is_passing(error) else error
        cause = self._error or error
        if not _runs_since(link, self._began_on):
            return ConnectionLost(f"the connection was lost during the work: {error_text(cause)}")
        return self._failed(WorkLost(f"the work lost its connection, although Postgres answers: {error_text(cause)}"))

    def _try(self, connection: Any) -> None:
        self._error, is_late = attempt(lambda: self._work(connection, self._records), WORK_S)
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


def _runs_since(link: Link, started_at: float) -> bool:
    """Return whether the server has run since this time; False: Postgres was restarted or replaced."""
    try:
        with limit(ANSWER_S):
            return read_start(link) == started_at
    except Exception as error:
        if not is_passing(error):
            raise
        return False
