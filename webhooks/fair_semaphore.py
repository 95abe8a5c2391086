"""Share the permits for concurrent requests fairly between tenants and hosts: a fair queue with dynamic thresholds.

With fixed shares, most permits would be unused if only one tenant sends. Each limit therefore depends on the number of
free permits. A tenant may hold at most as many permits as are free. A host may hold at most half of that number. One
tenant with hanging requests holds at most half of all permits. Ten tenants with hanging requests hold about nine
tenths. If all permits are taken, the next free permit goes to a tenant without a permit.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

KeyT = TypeVar("KeyT")

Origin = tuple[str, int]  # host and port
Queue = deque[asyncio.Future[None]]

SHARE_OF_TENANT, SHARE_OF_ORIGIN = 1.0, 0.5  # fractions of the free permits


class FairSemaphore:
    """Grant a number of permits, round robin over tenants, and within a tenant round robin over its hosts."""

    def __init__(self, permits: int) -> None:
        self.permits = self.free = permits
        self._of_tenant: Counter[str] = Counter()
        self._of_origin: Counter[Origin] = Counter()
        self._waiting: dict[str, dict[Origin, Queue]] = {}  # a tenant and a host that get a permit move to the end

    @asynccontextmanager
    async def acquire(self, tenant: str, origin: Origin) -> AsyncIterator[None]:
        """Wait for a permit, and hold it during the block."""
        if self._may_begin(tenant, origin) and origin not in self._waiting.get(tenant, {}):
            self._take(tenant, origin)
        else:
            await self._wait(tenant, origin)
        try:
            yield
        finally:
            self._release(tenant, origin)

    async def _wait(self, tenant: str, origin: Origin) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, {}).setdefault(origin, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._leave(tenant, origin, waiter)
            else:
                self._release(tenant, origin)  # the waiter got the permit just before the cancellation
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

    def _release(self, tenant: str, origin: Origin) -> None:
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
        waiter = queue.popleft()
        if queue:
            origins[origin] = queue
        if origins:
            self._waiting[tenant] = origins
        if not waiter.done():  # skip a waiter that was just cancelled
            waiter.set_result(None)
            self._take(tenant, origin)

    def _leave(self, tenant: str, origin: Origin, waiter: asyncio.Future[None]) -> None:
        origins = self._waiting.get(tenant, {})
        queue = origins.get(origin, deque())
        if waiter in queue:
            queue.remove(waiter)
        if origin in origins and not queue:
            del origins[origin]
        if tenant in self._waiting and not origins:
            del self._waiting[tenant]


def _count_down(counts: Counter[KeyT], key: KeyT) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
