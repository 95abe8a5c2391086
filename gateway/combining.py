"""Many creates at the same time become one statement.

A row costs Postgres 484 µs alone and 45 µs among twenty. Nobody waits for others to come: a writer that is free takes
what is there, and while all are busy more gathers. Nor does anybody wait for a lock that another's timer needs: if an
open transaction holds a timer's name, that timer, and each later one of that name, is written alone. A timer that only
Postgres refuses, for example because its target is gone, makes its batch be cut until it is alone. So the timers of its
tenant have a writer apart for a while.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Self

from shardclock_server.gateway.limits.places import Places
from shardclock_server.sql.clients.outcomes import Locked, Refused, Scheduled
from shardclock_server.sql.clients.scheduling import Batch
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.pool import Pool, PoolEmpty, ShareTaken
from shardclock_server.sql.requests.requests import IdempotentRequest
from shardclock_server.sql.retry import PAUSES
from shardclock_server.sql.served import NO_TENANTS, Tenants
from shardclock_server.sql.session import Session, StoreLocked, StoreUnavailable
from shardclock_server.timers.model import NewTimer

WRITERS = 2
BATCH_TIMERS = 200
BATCH_CHARACTERS = 2**20  # of payloads: a batch of large ones would keep the timers of other tenants waiting
WAITING_MAX = 5_000
WAIT_S = 10.0  # of one create, in the queue and in Postgres
# A commit takes a few milliseconds, so most locks are gone by then. What others wait for is bounded by it.
PATIENCE = LockPatience(whole_ms=50, part_ms=10, locked_max=4)
APART_S = 10.0  # after a refusal
ALONE_SHARE = 4  # one in so many sessions may wait for a lock


@dataclass(slots=True)
class _Wish:
    tenants: Tenants  # of who asks, as its key says: Postgres would refuse a timer of another tenant
    timer: NewTimer
    request: IdempotentRequest | None
    outcome: asyncio.Future[Scheduled | Refused]
    batch: Batch | None = None  # the one by which it is written alone, if it was asked for already

    @property
    def name(self) -> tuple[str, str | None]:
        """Return what may be locked."""
        return self.timer.tenant_id, self.timer.name


class _Queue:
    """Timers that wait to be written: tenants by turns, those of one tenant in order."""

    def __init__(self) -> None:
        self._by_tenant: OrderedDict[str, deque[_Wish]] = OrderedDict()
        self._arrived = asyncio.Event()

    def __iter__(self) -> Iterator[_Wish]:
        for wishes in self._by_tenant.values():
            yield from wishes

    def append(self, wish: _Wish) -> None:
        """Stand behind the others of its tenant."""
        if (wishes := self._by_tenant.get(wish.timer.tenant_id)) is None:
            self._by_tenant[wish.timer.tenant_id] = wishes = deque()
        wishes.append(wish)
        self._arrived.set()

    async def take(self) -> list[_Wish]:
        """Wait until there is somebody; take the first ones, but for those that wait no more."""
        await self._arrived.wait()
        batch, characters = list[_Wish](), 0
        while self._by_tenant and len(batch) < BATCH_TIMERS and characters < BATCH_CHARACTERS:
            tenant_id, wishes = next(iter(self._by_tenant.items()))
            wish = wishes.popleft()
            if wishes:
                self._by_tenant.move_to_end(tenant_id)
            else:
                del self._by_tenant[tenant_id]
            if not wish.outcome.done():
                batch.append(wish)
                characters += len(wish.timer.payload or "")
        if not self._by_tenant:
            self._arrived.clear()
        return batch


class Combiner:
    """Write timers that are asked for at the same time together; a faulty one is refused alone."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queue, self._queue_apart = _Queue(), _Queue()
        self._places = Places(WAITING_MAX, doing="timers wait to be written", way_out="send this one again in a moment")
        self._apart_until_s: dict[str, float] = {}  # by tenant
        self._locked: dict[tuple[str, str | None], deque[_Wish]] = {}  # by name, those that are written alone
        # Less than a statement may take: so it is known that nothing was written.
        self._patience_alone = LockPatience(int(pool.timeout_s * 800), 0, locked_max=1)
        self._alone = asyncio.Semaphore(max(1, pool.size // ALONE_SHARE))
        self._queues: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.Task[None]] = []
        self.written = 0  # timers, in so many batches
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
        _fail(waiting, StoreUnavailable("the gateway stops; ask another one"))

    async def schedule(
        self, tenants: Tenants, timer: NewTimer, request: IdempotentRequest | None = None
    ) -> Scheduled | Refused:
        """Write a timer for a caller of these tenants, and return what became of it.

        errors:  Problem           too many are waiting, in all or of its tenant: it was not written
                 PoolEmpty         all sessions are in use: it was not written
                 StoreUnavailable  the outcome is unknown, unless it came with a request, which may be sent again
        """
        with self._places.one(timer.tenant_id):
            return await self._written(tenants, timer, request)

    async def _written(
        self, tenants: Tenants, timer: NewTimer, request: IdempotentRequest | None
    ) -> Scheduled | Refused:
        wish = _Wish(tenants, timer, request, asyncio.get_running_loop().create_future())
        if wish.name in self._locked:
            self._locked[wish.name].append(wish)
        else:
            self._queue_of(timer.tenant_id).append(wish)
        try:
            async with asyncio.timeout(WAIT_S):
                return await wish.outcome
        except TimeoutError:
            raise StoreUnavailable(f"it was not written within {WAIT_S:g} s: ask whether it was") from None

    def _queue_of(self, tenant_id: str) -> _Queue:
        until_s = self._apart_until_s.get(tenant_id)
        if until_s is None:
            return self._queue
        if until_s > time.monotonic():
            return self._queue_apart
        del self._apart_until_s[tenant_id]
        return self._queue

    async def _write(self, queue: _Queue) -> None:
        while True:
            if batch := await queue.take():
                await self._send(batch)
                del batch  # while nothing comes it would keep what came last

    async def _send(self, wishes: list[_Wish]) -> None:
        """Write some together; one that is locked is left for a queue of its own."""
        batch = Batch([wish.timer for wish in wishes], [wish.request for wish in wishes])
        may_wait = any(wish.timer.name is not None for wish in wishes)
        outcomes = await self._outcomes_of(batch, wishes, PATIENCE if may_wait else None)
        # Of an answer that was lost there are none.
        for number, (wish, outcome) in enumerate(zip(wishes, outcomes, strict=False)):
            if isinstance(outcome, Locked):
                wish.batch = batch.alone(number)
                self._write_alone(wish)
                continue
            if type(outcome) is Refused:
                self._apart_until_s[wish.timer.tenant_id] = time.monotonic() + APART_S
            if not wish.outcome.done():  # whoever asked may have gone
                wish.outcome.set_result(outcome)

    def _write_alone(self, wish: _Wish) -> None:
        if wish.name in self._locked:
            self._locked[wish.name].append(wish)
            return
        self._locked[wish.name] = deque([wish])
        queue = asyncio.create_task(self._write_queued(wish.name), name="queue of a name")
        self._queues.add(queue)
        queue.add_done_callback(self._queues.discard)

    async def _write_queued(self, name: tuple[str, str | None]) -> None:
        """Write the timers of one name, one after the other, each for as long as Postgres waits for a lock."""
        wishes = self._locked[name]
        while wishes:
            async with self._alone:
                wish = wishes.popleft()
                if wish.outcome.done():
                    continue
                batch = wish.batch or Batch([wish.timer], [wish.request])
                for outcome in await self._outcomes_of(batch, [wish], self._patience_alone):
                    if isinstance(outcome, Locked):
                        _fail([wish], StoreLocked(outcome.why))
                    elif not wish.outcome.done():
                        wish.outcome.set_result(outcome)
        del self._locked[name]

    async def _outcomes_of(
        self, batch: Batch, wishes: list[_Wish], patience: LockPatience | None
    ) -> list[Scheduled | Refused]:
        """Send a batch until its outcome is known; if it is not, whoever waits is told, and none is returned."""
        try:
            async with self._pool.session(NO_TENANTS.union(*(wish.tenants for wish in wishes))) as session:
                outcomes = await _send_again(batch, session, patience)
        except asyncio.CancelledError:
            _fail(wishes, StoreUnavailable("the gateway stopped while it was written: ask whether it was"))
            raise
        except PoolEmpty as error:
            _fail(wishes, error)
            if not isinstance(error, ShareTaken):
                # Those behind would wait as long for a session, one batch after the other: they ask again as soon.
                _fail(self._queue, error)
            return []
        except Exception as error:  # noqa: BLE001 - whoever waits is told, and the writer goes on
            _fail(wishes, error)
            return []
        self.written += sum(not isinstance(outcome, Locked) for outcome in outcomes)
        self.batches += 1
        return outcomes


async def _send_again(batch: Batch, session: Session, patience: LockPatience | None) -> list[Scheduled | Refused]:
    """Send a batch; once more if its answer was lost, which writes nothing twice as its keys are the same."""
    is_again = False
    while True:
        try:
            return await batch.send(session, patience)
        except StoreLocked:
            if patience is None:
                raise
            patience = None  # the whole table is locked, for which all have to wait
        except StoreUnavailable:
            if is_again:
                raise
            is_again = True
            await asyncio.sleep(PAUSES.pause_s(1))


def _fail(wishes: Iterable[_Wish], error: Exception) -> None:
    for wish in wishes:
        if not wish.outcome.done():
            wish.outcome.set_exception(error)
