"""Do work for each record of the log outside of Postgres: lease a batch, work, acknowledge. At least once.

    async def send(batch):
        for record in batch.records:
            await post("https://mail.example/send", record.payload)
            await batch.acknowledge(record)

    await consume_leased(dsn, "mail", send)

No transaction is open while `send` works. The lease is renewed for as long as the work lasts. When its member dies, the
lease runs out, and another member gets the records that were not acknowledged.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias, TypeVar

from sql.dsn import Dsn
from sql.log.groups import Place
from sql.log.member import Member, WorkCancelled, WorkFailed, check_work
from sql.log.records import LogRecord, record_of
from sql.session import Session, StatementRefused, StoreUnavailable

LEASE_S = 30.0
SAID_S = 60.0  # while the work on a batch goes on, log that once in this time
GIVE_BACK_S = LAST_ASK_S = 1.0  # one statement: Postgres answers in milliseconds, or is away


class LeaseLost(Exception):
    """The lease ran out, and another member may be working on the batch: stop."""


class Batch:
    """Some records to work on, and how many are done. Only one task may use it at a time."""

    def __init__(self, session: Session, place: Place, records: Sequence[LogRecord], *, lease_s: float) -> None:
        self.records = records
        self.place = place
        self._session = session
        self.lease_s = lease_s
        self._until_s = time.monotonic() + lease_s
        self._asking = asyncio.Lock()

    async def acknowledge(self, record: LogRecord) -> None:
        """Record that all records up to this one are done: the next member begins behind it.

        errors:  LeaseLost         another member has the batch: end the work
                 StoreUnavailable  the outcome is unknown: go on, a later acknowledgement includes this one
        """
        await self._move(record.position, worked=True, keep_s=self.lease_s)

    async def renew(self) -> None:
        """Renew the lease; wait for an answer, or for the end of an outage, as long as the lease lasts.

        errors:  LeaseLost  it has run out
        """
        left_s = self._until_s - time.monotonic()
        try:
            # A member that was frozen until the lease ran out tries nevertheless: perhaps nobody has taken the batch.
            async with asyncio.timeout(left_s if left_s > 0 else LAST_ASK_S):
                await self._move(self.place.position, worked=False, keep_s=self.lease_s)
        except TimeoutError as error:
            raise LeaseLost("it could not be renewed in time: no answer") from error
        except StoreUnavailable as error:
            if time.monotonic() >= self._until_s:
                raise LeaseLost(f"it could not be renewed in time: {error}") from error

    async def give_back(self, position: int, *, worked: bool) -> None:
        """End the lease, with all records done up to a position.

        errors:  LeaseLost, StoreUnavailable
        """
        await self._move(position, worked=worked, keep_s=None)

    @property
    def unacknowledged(self) -> Sequence[LogRecord]:
        """List the records that are not acknowledged."""
        return [record for record in self.records if record.position > self.place.position]

    async def _move(self, position: int, *, worked: bool, keep_s: float | None) -> None:
        async with self._asking:
            asked_s = time.monotonic()
            self.place = await move_place(self._session, self.place, position, worked=worked, keep_s=keep_s)
            self._until_s = asked_s + (keep_s or 0.0)


T = TypeVar("T")
Work: TypeAlias = Callable[[Batch], Awaitable[None]]


async def consume_leased(
    dsn: Dsn | str,
    group: str,
    work: Work,
    *,
    partitions: int | None = None,
    attempts: int | None = None,
    lease_s: float = LEASE_S,
) -> None:
    """Do a group's work for every record, in order, each at least once, until cancelled.

    When `work` ends, its batch is acknowledged. If it raises, the error is logged and counted, and the records that
    were not acknowledged are tried again; after `attempts` on one record, that record is set aside. If a member dies
    while it works on one record alone, that is an attempt too.

    errors:  as those of `consume`
    """
    check_work(work)
    member = Member(dsn, group, partitions=partitions, attempts=attempts)
    await member.run(lambda: _turn(member, work, lease_s))


async def lease_batch(session: Session, group: str, *, limit: int, lease_s: float = LEASE_S) -> Batch | None:
    """Lease the next records in the free partition of a group that is furthest behind; None if there is nothing.

    shape:   at most `limit` records, one if it has failed or a lease ran out; without any, give back at the horizon
    errors:  StoreUnavailable  call again; a lease that was taken runs out by itself
    source:  sql/log/take_lease.sql, read_log.sql
    """
    member = f"{socket.gethostname()} {os.getpid()}"
    row = await session.row(
        "take_lease", group_name=group, member=member, lease_for=timedelta(seconds=lease_s), records_max=limit
    )
    if row is None:
        return None
    found = dict(row)
    size = found.pop("leased_records")
    place = Place(group=group, **found)
    rows = await session.rows(
        "read_log",
        after=place.position,
        page_size=size,
        partition=place.partition,
        partitions=place.partitions,
        horizon=place.horizon,
        bytes=None,
    )
    end = replace(place, horizon=place.end_of([row["position"] for row in rows], full=len(rows) == size))
    return Batch(session, end, [record_of(row) for row in rows], lease_s=lease_s)


async def move_place(session: Session, place: Place, position: int, *, worked: bool, keep_s: float | None) -> Place:
    """Record that a leased partition is done up to a position; keep the lease for so long from now, or end it.

    errors:  LeaseLost         another member has the partition
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/log/acknowledge.sql
    """
    row = await session.row(
        "acknowledge",
        group_name=place.group,
        partition=place.partition,
        lease=place.lease,
        position=position,
        worked=worked,
        keep_for=None if keep_s is None else timedelta(seconds=keep_s),
    )
    if row is None:
        raise LeaseLost(f"another member of {place.group} has partition {place.partition}")
    return replace(place, position=row["position"])


async def _turn(member: Member, work: Work, lease_s: float) -> bool:
    leasing = asyncio.create_task(lease_batch(member.session, member.group, limit=member.pace.records, lease_s=lease_s))
    try:
        batch = await _await_answer(leasing)
        if batch is not None:
            await _process(member, work, batch)
    except asyncio.CancelledError:
        if leasing.done() and not leasing.cancelled() and not leasing.exception() and (batch := leasing.result()):
            await _leave(batch)
        raise
    return batch is not None


async def _process(member: Member, work: Work, batch: Batch) -> None:
    if not batch.records:
        await _end(member, batch, worked=False)
        return
    if member.attempts is not None and batch.place.attempts >= member.attempts:
        await member.set_aside(batch.place, batch.records[0], batch.place.attempts)
        return
    began_s = time.monotonic()
    try:
        await _work(member, work, batch)
    except LeaseLost as error:
        member.log.warning("lease lost", partition=batch.place.partition, error=str(error))
        member.pace.slow()
        await _leave(batch)
    except Exception as error:  # noqa: BLE001 - whatever the work raises is said and counted
        if not batch.unacknowledged:
            member.log.warning("work failed after all was acknowledged", error=f"{type(error).__name__}: {error}"[:500])
            await _end(member, batch, worked=True)
        else:
            await member.fail(WorkFailed(batch.place, batch.unacknowledged, error))
    else:
        member.pace.done(len(batch.records), time.monotonic() - began_s)
        await _end(member, batch, worked=True)


async def _leave(batch: Batch) -> None:
    """Give back a lease that is still ours, when the work has ended: else it runs out, which counts as a failure."""
    with suppress(LeaseLost, StatementRefused, StoreUnavailable, TimeoutError):
        async with asyncio.timeout(GIVE_BACK_S):
            await batch.give_back(batch.place.position, worked=False)


async def _await_answer(asked: "asyncio.Task[T]") -> T:
    """Wait for an answer; if cancelled meanwhile, still wait a little, to know whether a lease was taken or ended."""
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait({asked}, timeout=GIVE_BACK_S)
        asked.cancel()
        raise


async def _end(member: Member, batch: Batch, *, worked: bool) -> None:
    try:
        end = max(batch.place.horizon, batch.place.position)
        await _await_answer(asyncio.create_task(batch.give_back(end, worked=worked)))
    except LeaseLost as error:
        member.log.warning("lease lost after the work", partition=batch.place.partition, error=str(error))


async def _work(member: Member, work: Work, batch: Batch) -> None:
    """Do the work and renew its lease meanwhile; if the lease can't be renewed, cancel the work.

    errors:  LeaseLost  the work was cancelled, and has ended
             whatever `work` raises
    """
    working = asyncio.ensure_future(work(batch))
    keeping = asyncio.create_task(_keep(member, batch))
    both = {working, keeping}
    try:
        # Not `await working`: when we cancel it, that would look as if we were cancelled from outside.
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        # If we are cancelled here, gather cancels both once more, and we leave when they have ended.
        await asyncio.gather(*both, return_exceptions=True)
    if working in done:
        if working.cancelled():  # before we cancelled it
            raise WorkCancelled
        return working.result()
    error = keeping.exception()
    raise error if isinstance(error, LeaseLost) else LeaseLost(f"it can't be renewed: {error}") from error


async def _keep(member: Member, batch: Batch) -> None:
    """Renew the lease until cancelled, or until it can't be renewed."""
    began_s = said_s = time.monotonic()
    while True:
        await asyncio.sleep(batch.lease_s / 3)
        await batch.renew()
        now_s = time.monotonic()
        if now_s >= said_s + SAID_S:
            said_s = now_s
            member.log.warning(
                "still at work on a batch", records=len(batch.records), seconds=round(now_s - began_s),
                position=batch.place.position, partition=batch.place.partition,
            )  # fmt: skip
