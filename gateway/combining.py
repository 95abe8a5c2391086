"""Write the timers that several requests create at the same time with one statement.

A single row costs Postgres 484 µs; a row in a batch of twenty costs 45 µs. A free writer takes all queued timers, so no
timer waits for a batch to fill; while all writers are busy, the next batch grows. If an open transaction has locked a
timer's name, timers of this name are written in separate batches, so that they delay no other timer. If Postgres
refuses a timer, for example because of a missing target, the batch is halved until this timer is in a separate batch.
For the next `APART_S` seconds, a separate writer then writes the timers of this tenant.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Self

from shardclock.api.codes import REFUSED
from shardclock_server.gateway.limits.concurrency import ConcurrencyLimit
from shardclock_server.sql.clients.outcomes import Locked, Refused, Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.idempotency.requests import IdempotentRequest
from shardclock_server.sql.pool import Pool, PoolEmpty, ShareTaken
from shardclock_server.sql.retry import PAUSES
from shardclock_server.sql.served import NO_TENANTS, Tenants
from shardclock_server.sql.session import Session, StoreLocked, StoreUnavailable
from shardclock_server.timers.model import NewTimer

WRITERS = 2
BATCH_TIMERS = 200
BATCH_CHARACTERS = 2**20  # a batch with more characters of payload would delay the timers of other tenants
WAITING_MAX = 5_000
WAIT_S = 10.0  # The longest time of one create: its wait in the queue and its write in Postgres.
# The time that a batch waits for a locked name. Most locks end within this time, because a commit takes milliseconds;
# a longer wait would delay the other timers of the batch.
PATIENCE = LockPatience(whole_ms=50, part_ms=10, locked_max=4)
APART_S = 10.0  # For this time after a refusal, the tenant's timers have a separate writer.
ALONE_SHARE = 4  # One session in 4 may write timers one by one; each of these writes may wait for a lock.


@dataclass(slots=True)
class _QueuedTimer:
    tenants: Tenants  # the tenants of the caller's key: Postgres refuses a timer of another tenant
    timer: NewTimer
    request: IdempotentRequest | None
    outcome: asyncio.Future[Scheduled | Refused]
    batch: ScheduleBatch | None = None  # the statement for this timer alone, if its name was locked in a batch

    @property
    def name(self) -> tuple[str, str | None]:
        """Return the tenant and the name that another transaction may have locked."""
        return self.timer.tenant_id, self.timer.name


class _TimerQueue:
    """Queued timers: round robin over tenants, first in, first out within a tenant."""

    def __init__(self) -> None:
        self._by_tenant: OrderedDict[str, deque[_QueuedTimer]] = OrderedDict()
        self._arrived = asyncio.Event()

    def __iter__(self) -> Iterator[_QueuedTimer]:
        for queued in self._by_tenant.values():
            yield from queued

    def append(self, one: _QueuedTimer) -> None:
        """Append a timer to the queue of its tenant."""
        if (queued := self._by_tenant.get(one.timer.tenant_id)) is None:
            self._by_tenant[one.timer.tenant_id] = queued = deque()
        queued.append(one)
        self._arrived.set()

    async def take(self) -> list[_QueuedTimer]:
        """Wait until the queue has timers; take the first timers, and skip timers of ended requests."""
        await self._arrived.wait()
        batch, characters = list[_QueuedTimer](), 0
        while self._by_tenant and len(batch) < BATCH_TIMERS and characters < BATCH_CHARACTERS:
            tenant_id, queued = next(iter(self._by_tenant.items()))
            one = queued.popleft()
            if queued:
                self._by_tenant.move_to_end(tenant_id)
            else:
                del self._by_tenant[tenant_id]
            if not one.outcome.done():
                batch.append(one)
                characters += len(one.timer.payload or "")
        if not self._by_tenant:
            self._arrived.clear()
        return batch


class Combiner:
    """Write concurrent creates in batches; a faulty timer does not fail the other timers of the batch."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queue, self._queue_apart = _TimerQueue(), _TimerQueue()
        self._limit = ConcurrencyLimit(
            WAITING_MAX, doing="timers wait to be written", way_out="send this timer again in a moment"
        )
        self._apart_until_s: dict[str, float] = {}  # For each tenant with a separate writer: the end of this time.
        # For each locked name: the queue of its timers, which are written in separate batches.
        self._locked: dict[tuple[str, str | None], deque[_QueuedTimer]] = {}
        # 80 % of the statement timeout, so that the wait for a lock ends before the statement times out. Then the
        # outcome is known.
        self._patience_alone = LockPatience(int(pool.timeout_s * 800), 0, locked_max=1)
        self._alone = asyncio.Semaphore(max(1, pool.size // ALONE_SHARE))
        self._queues: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.Task[None]] = []
        self.written = 0  # the number of written timers; `batches` counts the statements that wrote timers
        self.batches = 0

    async def __aenter__(self) -> Self:
        queues = [*WRITERS * [self._queue], self._queue_apart]
        self._writers = [asyncio.create_task(self._write(it), name=f"writer {n}") for n, it in enumerate(queues)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = [*self._writers, *self._queues]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        waiting = chain(self._queue, self._queue_apart, *self._locked.values())
        _fail(waiting, StoreUnavailable("the gateway stops; ask another gateway"))

    async def schedule(
        self, tenants: Tenants, timer: NewTimer, request: IdempotentRequest | None = None
    ) -> Scheduled | Refused:
        """Write a timer for a caller that may act for `tenants`, and return the timer's outcome.

        errors:  Problem           the queue is full, in total or for the tenant: the timer was not written
                 PoolEmpty         all sessions are in use: the timer was not written
                 StoreUnavailable  the outcome is unknown; a timer with an idempotency key may be sent again
        """
        with self._limit.slot(timer.tenant_id):
            return await self._written(tenants, timer, request)

    async def _written(
        self, tenants: Tenants, timer: NewTimer, request: IdempotentRequest | None
    ) -> Scheduled | Refused:
        one = _QueuedTimer(tenants, timer, request, asyncio.get_running_loop().create_future())
        if one.name in self._locked:
            self._locked[one.name].append(one)
        else:
            self._queue_of(timer.tenant_id).append(one)
        try:
            async with asyncio.timeout(WAIT_S):
                return await one.outcome
        except TimeoutError:
            raise StoreUnavailable(f"the timer was not written within {WAIT_S:g} s: check whether it exists") from None

    def _queue_of(self, tenant_id: str) -> _TimerQueue:
        until_s = self._apart_until_s.get(tenant_id)
        if until_s is None:
            return self._queue
        if until_s > time.monotonic():
            return self._queue_apart
        del self._apart_until_s[tenant_id]
        return self._queue

    async def _write(self, queue: _TimerQueue) -> None:
        while True:
            if batch := await queue.take():
                await self._send(batch)
                del batch  # free the batch's memory while the next `take` waits

    async def _send(self, queued: list[_QueuedTimer]) -> None:
        """Write a batch; a timer with a locked name moves to the queue of its name."""
        batch = ScheduleBatch([one.timer for one in queued], [one.request for one in queued])
        may_wait = any(one.timer.name is not None for one in queued)
        outcomes = await self._outcomes_of(batch, queued, PATIENCE if may_wait else None)
        # The list is empty if Postgres did not answer.
        for number, (one, outcome) in enumerate(zip(queued, outcomes, strict=False)):
            if isinstance(outcome, Locked):
                one.batch = batch.alone(number)
                self._write_alone(one)
                continue
            if isinstance(outcome, Refused) and outcome.code.general == REFUSED.name:
                self._apart_until_s[one.timer.tenant_id] = time.monotonic() + APART_S
            if not one.outcome.done():  # the caller may have disconnected
                one.outcome.set_result(outcome)

    def _write_alone(self, one: _QueuedTimer) -> None:
        if one.name in self._locked:
            self._locked[one.name].append(one)
            return
        self._locked[one.name] = deque([one])
        queue = asyncio.create_task(self._write_queued(one.name), name="queue of a name")
        self._queues.add(queue)
        queue.add_done_callback(self._queues.discard)

    async def _write_queued(self, name: tuple[str, str | None]) -> None:
        """Write the timers of one locked name in order; each write waits for the lock, at most until its timeout."""
        queued = self._locked[name]
        while queued:
            async with self._alone:
                one = queued.popleft()
                if one.outcome.done():
                    continue
                batch = one.batch or ScheduleBatch([one.timer], [one.request])
                for outcome in await self._outcomes_of(batch, [one], self._patience_alone):
                    if isinstance(outcome, Locked):
                        _fail([one], StoreLocked(outcome.why))
                    elif not one.outcome.done():
                        one.outcome.set_result(outcome)
        del self._locked[name]

    async def _outcomes_of(
        self, batch: ScheduleBatch, queued: list[_QueuedTimer], patience: LockPatience | None
    ) -> list[Scheduled | Refused]:
        """Send a batch until its outcomes are known; after an error, fail the requests and return an empty list."""
        try:
            async with self._pool.session(NO_TENANTS.union(*(one.tenants for one in queued))) as session:
                outcomes = await _send_again(batch, session, patience)
        except asyncio.CancelledError:
            _fail(queued, StoreUnavailable("the gateway stopped during the write: check whether the timer exists"))
            raise
        except PoolEmpty as error:
            _fail(queued, error)
            if not isinstance(error, ShareTaken):
                # Fail the queued timers too, because their batches would also get no session. The callers can retry
                # sooner.
                _fail(self._queue, error)
            return []
        except Exception as error:  # noqa: BLE001 - the waiting requests get the error, and the writer continues
            _fail(queued, error)
            return []
        self.written += sum(not isinstance(outcome, Locked) for outcome in outcomes)
        self.batches += 1
        return outcomes


async def _send_again(
    batch: ScheduleBatch, session: Session, patience: LockPatience | None
) -> list[Scheduled | Refused]:
    """Send a batch; after a lost response repeat it with the same keys, so that no timer is written twice."""
    is_again = False
    while True:
        try:
            return await batch.send(session, patience)
        except StoreLocked:
            if patience is None:
                raise
            patience = None  # the whole table is locked: all timers have to wait
        except StoreUnavailable:
            if is_again:
                raise
            is_again = True
            await asyncio.sleep(PAUSES.pause_s(1))


def _fail(queued: Iterable[_QueuedTimer], error: Exception) -> None:
    for one in queued:
        if not one.outcome.done():
            one.outcome.set_exception(error)
