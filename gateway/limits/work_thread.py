"""Run long computations in a thread, one at a time, round robin over tenants.

A long computation on the event loop would block all other requests. A long computation in a transaction would hold the
locks of the transaction for longer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shardclock_server.gateway.limits.concurrency import ConcurrencyLimit

WORK_MAX = 8  # the limit of running and waiting computations, because each may hold a model of 4 MiB
AGAIN = "ask again soon, or ask another gateway"

T = TypeVar("T")


class WorkThread:
    """One thread of a gateway with a queue: each tenant's requests in order, round robin over tenants."""

    def __init__(self, name: str, *, doing: str) -> None:
        self.limit = ConcurrencyLimit(WORK_MAX, doing=doing, way_out=AGAIN)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._is_busy = False
        # in the order of service: the first tenant is served next
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def aclose(self) -> None:
        """Start no further computation; the running computation continues to its end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self, tenant_id: str, work: Callable[..., T], *given: object) -> T:
        """Call a function in the thread, after the earlier requests of the queue.

        errors:  Problem  too many requests wait already, in total or for the tenant
                 any      from the function
        """
        with self.limit.slot(tenant_id):
            await self._turn_of(tenant_id)
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
            finally:
                self._give_turn()

    async def _turn_of(self, tenant_id: str) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # this request had its turn already, so start the next request
                self._give_turn()
            raise

    def _give_turn(self) -> None:
        """Start the first request of the next tenant, and put this tenant behind the other tenants."""
        while self._waiting:
            tenant_id = next(iter(self._waiting))
            turns = self._waiting.pop(tenant_id)
            turn = turns.popleft()
            if turns:
                self._waiting[tenant_id] = turns
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._is_busy = False
