"""Many creates at the same time become one statement.

A row costs Postgres 484 µs alone and 45 µs among twenty. Nobody waits for others to come: a writer that is free takes
what is there, and while all are busy more gathers.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from sql.clients.pending import Batch, Refused, Scheduled
from sql.pool import Pool, PoolEmpty
from sql.requests.requests import IdempotentRequest
from sql.retry import Retry
from sql.session import NO_TENANTS, StoreUnavailable, Tenants
from timers.model import NewTimer

WRITERS = 2
BATCH_TIMERS = 200
WAITING_MAX = 5_000
WAIT_S = 10.0  # of one create, in the queue and in Postgres
# An answer that was lost is asked for once more under the same keys, which writes nothing twice.
RETRY = Retry(attempts=2)


@dataclass(slots=True)
class _Wish:
    tenants: Tenants  # of who asks, as its key says: Postgres would refuse a timer of another tenant
    timer: NewTimer
    request: IdempotentRequest | None
    outcome: asyncio.Future[Scheduled | Refused]


class Combiner:
    """Write timers that are asked for at the same time together; a faulty one is refused alone."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._wishes: deque[_Wish] = deque()
        self._arrived = asyncio.Event()
        self._writers: list[asyncio.Task[None]] = []
        self.written = 0  # timers, in so many batches
        self.batches = 0

    async def __aenter__(self) -> Self:
        self._writers = [asyncio.create_task(self._write(), name=f"writer {n}") for n in range(WRITERS)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        _fail(self._wishes, StoreUnavailable("the gateway stops; ask another one"))

    async def schedule(
        self, tenants: Tenants, timer: NewTimer, request: IdempotentRequest | None = None
    ) -> Scheduled | Refused:
        """Write a timer for a caller of these tenants, and return what became of it.

        errors:  PoolEmpty         too many are waiting: it was not written
                 StoreUnavailable  the outcome is unknown, unless it came with a request, which may be sent again
        """
        if len(self._wishes) >= WAITING_MAX:
            raise PoolEmpty(f"{WAITING_MAX:,} timers wait to be written; send this one again in a moment")
        wish = _Wish(tenants, timer, request, asyncio.get_running_loop().create_future())
        self._wishes.append(wish)
        self._arrived.set()
        try:
            async with asyncio.timeout(WAIT_S):
                return await wish.outcome
        except TimeoutError:
            raise StoreUnavailable(f"it was not written within {WAIT_S:g} s: ask whether it was") from None

    async def _write(self) -> None:
        while True:
            await self._arrived.wait()
            batch = [self._wishes.popleft() for _ in range(min(len(self._wishes), BATCH_TIMERS))]
            batch = [wish for wish in batch if not wish.outcome.done()]  # nobody waits for the others any more
            if not self._wishes:
                self._arrived.clear()
            if batch:
                await self._send(batch)

    async def _send(self, wishes: list[_Wish]) -> None:
        batch = Batch([wish.timer for wish in wishes], [wish.request for wish in wishes])
        try:
            async with self._pool.session(NO_TENANTS.union(*(wish.tenants for wish in wishes))) as session:
                outcomes, _ = await RETRY.run(lambda: batch.send(session))
        except asyncio.CancelledError:
            _fail(wishes, StoreUnavailable("the gateway stopped while it was written: ask whether it was"))
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits is told, and the writer goes on
            _fail(wishes, error)
        else:
            self.written += len(wishes)
            self.batches += 1
            for wish, outcome in zip(wishes, outcomes, strict=True):
                if not wish.outcome.done():  # whoever asked may have gone
                    wish.outcome.set_result(outcome)


def _fail(wishes: list[_Wish] | deque[_Wish], error: Exception) -> None:
    for wish in wishes:
        if not wish.outcome.done():
            wish.outcome.set_exception(error)
