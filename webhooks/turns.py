"""Whose delivery is sent next, while there are more than may be on the way at once: no tenant and no host has it all.

Fixed shares would leave most of the room empty when one tenant alone has something to send. So each share is one of
what is free now: a tenant may have on the way as many as places are free, one host half as many. So a tenant that hangs
holds half of all places, ten hold nine tenths, and when many have taken all, the next place that is given back goes to
a tenant that has none.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

KeyT = TypeVar("KeyT")

Origin = tuple[str, int]  # host and port
Queue = deque[asyncio.Future[None]]

SHARE_OF_TENANT, SHARE_OF_ORIGIN = 1.0, 0.5  # of the places that are free


class Turns:
    """Give a number of places, in turns: of the tenants, and of the hosts of each tenant."""

    def __init__(self, places: int) -> None:
        self.places = self.free = places
        self._of_tenant: Counter[str] = Counter()
        self._of_origin: Counter[Origin] = Counter()
        self._waiting: dict[str, dict[Origin, Queue]] = {}  # who had a turn goes to the end

    @asynccontextmanager
    async def place(self, tenant: str, origin: Origin) -> AsyncIterator[None]:
        """Hold a place, when there is one."""
        if self._may_begin(tenant, origin) and origin not in self._waiting.get(tenant, {}):
            self._take(tenant, origin)
        else:
            await self._wait(tenant, origin)
        try:
            yield
        finally:
            self._give_back(tenant, origin)

    async def _wait(self, tenant: str, origin: Origin) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, {}).setdefault(origin, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(tenant, origin, turn)
            else:
                self._give_back(tenant, origin)  # it had its turn in the same moment
            raise

    def _may_begin(self, tenant: str, origin: Origin) -> bool:
        return (
            self._of_tenant[tenant] < SHARE_OF_TENANT * self.free
            and self._of_origin[origin] < SHARE_OF_ORIGIN * self.free
        )

    def _take(self, tenant: str, origin: Origin) -> None:
        self.free -= 1
        self._of_tenant[tenant] += 1
        self._of_origin[origin] += 1

    def _give_back(self, tenant: str, origin: Origin) -> None:
        self.free += 1
        _count_down(self._of_tenant, tenant)
        _count_down(self._of_origin, origin)
        while self.free and (following := self._next()) is not None:
            self._begin(*following)

    def _next(self) -> tuple[str, Origin] | None:
        for tenant, origins in self._waiting.items():
            if self._of_tenant[tenant] < SHARE_OF_TENANT * self.free:
                for origin in origins:
                    if self._may_begin(tenant, origin):
                        return tenant, origin
        return None

    def _begin(self, tenant: str, origin: Origin) -> None:
        origins = self._waiting.pop(tenant)
        queue = origins.pop(origin)
        turn = queue.popleft()
        if queue:
            origins[origin] = queue
        if origins:
            self._waiting[tenant] = origins
        if not turn.done():  # else it was cancelled just now
            turn.set_result(None)
            self._take(tenant, origin)

    def _leave(self, tenant: str, origin: Origin, turn: asyncio.Future[None]) -> None:
        origins = self._waiting.get(tenant, {})
        queue = origins.get(origin, deque())
        if turn in queue:
            queue.remove(turn)
        if origin in origins and not queue:
            del origins[origin]
        if tenant in self._waiting and not origins:
            del self._waiting[tenant]


def _count_down(counts: Counter[KeyT], key: KeyT) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
