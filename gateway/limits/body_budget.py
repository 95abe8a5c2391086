"""Limit the bytes of large bodies in a gateway's memory. A request over the limit waits before its body is read.

Each byte of a body with many lines costs three bytes of memory while it is processed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from shardclock_server.gateway.requests.problems import unavailable


class BodyBudget:
    """Limit the bytes of all request bodies in memory to `bytes_max`, and of one tenant's bodies to half."""

    def __init__(self, bytes_max: int) -> None:
        self._share = bytes_max // 2
        self._whole = _ByteBudget(bytes_max)
        self._shares: WeakValueDictionary[str, _ByteBudget] = WeakValueDictionary()

    @asynccontextmanager
    async def reserve(self, tenant_id: str, size: int, *, within_s: float) -> AsyncIterator[None]:
        """Reserve `size` bytes for a body during a `with` block; `size` is at most half of the limit.

        Requests reserve bytes in the order of their arrival. A tenant at its own limit does not delay other tenants.

        errors:  Problem  the bytes were not free within the time limit
        """
        budgets = (self._shares.setdefault(tenant_id, _ByteBudget(self._share)), self._whole)
        acquired: list[_ByteBudget] = []
        try:
            try:
                async with asyncio.timeout(within_s):
                    for budget in budgets:
                        await budget.acquire(size)
                        acquired.append(budget)
            except TimeoutError:
                raise unavailable(
                    f"other large bodies are still in progress after {within_s:g} s; send this body again"
                    " later, or in smaller parts"
                ) from None
            yield
        finally:
            for budget in acquired:
                budget.release(size)


class _ByteBudget:
    """The number of free bytes, and the lock with which requests reserve bytes in the order of their arrival."""

    def __init__(self, bytes_max: int) -> None:
        self._free = bytes_max
        self._lock = asyncio.Lock()
        self._released = asyncio.Event()

    async def acquire(self, size: int) -> None:
        async with self._lock:
            while self._free < size:
                self._released.clear()
                await self._released.wait()
            self._free -= size

    def release(self, size: int) -> None:
        self._free += size
        self._released.set()
