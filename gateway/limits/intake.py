"""Bound the bytes of large bodies that one gateway has in memory at a time; who finds no room waits, and sends nothing.

Each byte of a body of many lines costs three of memory while it is being worked on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from shardclock_server.gateway.requests.problems import unavailable


class Intake:
    """Hold what the bodies in hand have of `bytes_max`; those of one tenant have half of it at most."""

    def __init__(self, bytes_max: int) -> None:
        self._share = bytes_max // 2
        self._whole = _Line(bytes_max)
        self._shares: WeakValueDictionary[str, _Line] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, tenant_id: str, size: int, *, within_s: float) -> AsyncIterator[None]:
        """Have room for a body of `size` bytes, at most half of all, for the length of a block.

        Who comes first gets room first; a tenant that waits for its own share keeps nobody else waiting.

        errors:  Problem  there was none in time
        """
        lines = (self._shares.setdefault(tenant_id, _Line(self._share)), self._whole)
        had: list[_Line] = []
        try:
            try:
                async with asyncio.timeout(within_s):
                    for line in lines:
                        await line.take(size)
                        had.append(line)
            except TimeoutError:
                raise unavailable(
                    f"large bodies of others are still being worked on after {within_s:g} s; send it again later,"
                    " or in smaller parts"
                ) from None
            yield
        finally:
            for line in had:
                line.give_back(size)


class _Line:
    """So many bytes, and those who wait for some: the first of them has the lock."""

    def __init__(self, bytes_max: int) -> None:
        self._free = bytes_max
        self._lock = asyncio.Lock()
        self._given_back = asyncio.Event()

    async def take(self, size: int) -> None:
        async with self._lock:
            while self._free < size:
                self._given_back.clear()
                await self._given_back.wait()
            self._free -= size

    def give_back(self, size: int) -> None:
        self._free += size
        self._given_back.set()
