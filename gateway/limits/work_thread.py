"""Do work that takes processor time beside the requests: in a thread, one at a time, tenants by turns.

On the loop it would keep all other requests waiting, and in a transaction its locks would be held meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shardclock_server.gateway.limits.places import Places

WORK_MAX = 8  # running and waiting ones: a model has up to 4 MiB
AGAIN = "ask again soon, or ask another gateway"

T = TypeVar("T")


class WorkThread:
    """A thread of one gateway, and the requests that wait for it: each tenant's in order, tenants by turns."""

    def __init__(self, name: str, *, doing: str) -> None:
        self.places = Places(WORK_MAX, doing=doing, way_out=AGAIN)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._is_busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the tenant whose turn is next comes first

    async def aclose(self) -> None:
        """Begin no more work; the running piece is finished."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self, tenant_id: str, work: Callable[..., T], *given: object) -> T:
        """Call a function when it is the tenant's turn.

        errors:  Problem  too many wait already, of all or of the tenant; and whatever the function raises
        """
        with self.places.one(tenant_id):
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
            if not turn.cancelled():  # the turn had come
                self._give_turn()
            raise

    def _give_turn(self) -> None:
        """Let the next tenant's first request begin, and put the tenant behind the others."""
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
