# Written by `make docs` from async_consuming.py: change that, and write this anew.
"""Do work for each record of the log in the transaction that moves the group's place: exactly once, in Postgres."""

import time
from collections.abc import Sequence
from typing import Any

from shardclock.log.failing import (
    ConnectionLost,
    TransactionEnded,
    WorkFailed,
    WorkLost,
    WorkTooSlow,
    is_passing,
    told,
)
from shardclock.log.place import PartitionPlace
from shardclock.log.record import LogPage, LogRecord
from shardclock.log.sync_groups import advance_place, open_group, read_start, take_partition
from shardclock.log.sync_link import Held, Link
from shardclock.log.sync_member import WORK_S, Member
from shardclock.log.sync_reading import READ_MAX, read_place
from shardclock.log.sync_timing import IN_THREAD, Work, attempt, limit

ANSWER_S = 5.0  # the limit for our own statements; the work has a limit of its own
SAVEPOINT = "shardclock_read"


def consume(member: Member, work: Work) -> None:
    """Do a group's work for every record, in order, until stopped."""

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
    """Do a group's work for the next records on one connection, in a transaction that moves the group's place."""
    if driver.is_in_transaction:
        raise TypeError("consume_once begins a transaction of its own, and the connection is in one: end that before")
    # Not in the work's transaction: a new group's second member would wait until the first has done its first batch.
    with driver.transaction():
        partitions = open_group(driver, group)
    for _ in range(partitions):
        done = _do_alone(driver, Round(group, work, limit))
        if done != 0:
            return done or 0
        # Of a partition without records its place has moved, and another one comes next.
    return 0


def _do_alone(driver: Held, taken: "Round") -> int | None:
    try:
        with driver.transaction():
            return taken.do(driver)
    except WorkFailed as failure:
        error = failure.error
    raise error


def _work_once(link: Link, taken: "Round") -> int | None:
    """Work on the free partition that is furthest behind; None if there is none to work on."""
    try:
        with link.transaction() as driver:
            return taken.do(driver)
    except Exception as error:
        is_lost = link.is_lost and not isinstance(error, TimeoutError)
        verdict = taken.verdict(link, error, is_lost=is_lost)
        if verdict is error:
            raise
        raise verdict from error


def _read(driver: Held, place: PartitionPlace, size: int) -> LogPage:
    """Read the log in a savepoint that is rolled back.

    Reading the log locks all its days until the transaction ends: while members work, no day could be made or dropped.
    A rollback to a savepoint releases the locks taken since; the group's partition was locked before, and stays locked.
    """
    driver.run(f"savepoint {SAVEPOINT}")
    page = read_place(driver, place, size)
    driver.run(f"rollback to savepoint {SAVEPOINT}")
    return page


class Round:
    """Do the work on a batch in the transaction that moves the place, and decide whether an error is the work's."""

    def __init__(self, group: str, work: Work, size: int) -> None:
        self._group, self._work, self._size = group, work, size
        self._place: PartitionPlace | None = None
        self._records: Sequence[LogRecord] = ()
        self._began_on: float | None = None  # the start time of the server on which the work began
        self._error: Exception | None = None
        self._moved = False

    def do(self, driver: Held) -> int | None:
        """Lock a partition, read, do the work and move its place; return how many records there were."""
        found = take_partition(driver, self._group)
        if found is None:
            return None
        transaction, started_at = found.pop("transaction"), found.pop("started_at")
        self._place = place = PartitionPlace(group=self._group, **found)
        # A record that has failed is tried alone, so that it does not undo the work on others.
        size = 1 if place.attempts else self._size
        page = _read(driver, place, size)
        self._records = records = page.records
        end = place.end_of([record.position for record in records], full=page.is_full)
        if records:
            self._began_on = started_at
            self._try(driver.connection)
        self._moved = advance_place(driver, place, end, worked=bool(records), transaction=transaction)
        if not self._moved:
            self._error = TransactionEnded(
                "the work ended the transaction that it was given, and what it wrote is not undone: leave commit and"
                " rollback to us; for a part that may fail there are savepoints, `connection.transaction()`"
            )
            raise self._failed(self._error)
        return len(records)

    def verdict(self, link: Link, error: Exception, *, is_lost: bool) -> Exception:
        """Say which error to raise: the work's failure, or the failure of Postgres itself."""
        if self._began_on is None or isinstance(self._error, WorkTooSlow | TransactionEnded):
            return self._failed(self._error) if self._error else error
        is_lost |= any(getattr(it, "connection_invalidated", False) for it in (error, self._error))
        if self._moved or not is_lost:
            return self._failed(self._error or error) if self._error or not is_passing(error) else error
        cause = self._error or error
        if not _runs_since(link, self._began_on):
            return ConnectionLost(f"the connection was lost during the work: {told(cause)}")
        return self._failed(WorkLost(f"the work lost its connection, and Postgres is there: {told(cause)}"))

    def _try(self, connection: Any) -> None:
        self._error, is_late = attempt(lambda: self._work(connection, self._records), WORK_S)
        if is_late:
            self._error = WorkTooSlow(
                f"work on {len(self._records)} record(s) took longer than a transaction may, {WORK_S:g} s: do it"
                f" under a lease (consume_leased), and {IN_THREAD}"
            )
        if self._error:
            raise self._failed(self._error)

    def _failed(self, error: Exception) -> WorkFailed:
        assert self._place is not None
        return WorkFailed(self._place, self._records, error)


def _runs_since(link: Link, started_at: float) -> bool:
    """Say whether the same server still answers: one that started at this time, so it was not restarted or replaced."""
    try:
        with limit(ANSWER_S):
            return read_start(link) == started_at
    except Exception as error:
        if not is_passing(error):
            raise
        return False
