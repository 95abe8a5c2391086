"""Callers that wait to be told something, each until its time is over or it has hung up."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Generic, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class Waiter(Generic[T]):
    """Wait in the caller's own task, so that thousands cost no tasks of their own; `told` is what it was told."""

    def __init__(self) -> None:
        self.told: T | None = None
        self._is_over = False
        self._until: asyncio.Timeout | None = None

    def tell(self, value: T) -> None:
        """Tell it what it waits for; only the first answer counts."""
        if self.told is None:
            self.told = value
        self.end()

    def end(self) -> None:
        """Let it wait no longer."""
        self._is_over = True
        if self._until is not None and not self._until.expired():
            self._until.reschedule(0.0)

    async def wait(self, receive: Receive, *, within_s: float) -> None:
        """Wait until it is told, the time is over, or whoever asked has gone."""
        if self._is_over:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s) as self._until:
                while (await receive())["type"] != "http.disconnect":
                    pass
        self._until = None


class Waiting(Generic[T]):
    """Those who wait at one gateway, by the key of what they wait for.

    `look` finds out for all of them what has happened, and tells them. Its task runs only while somebody waits.
    """

    def __init__(self, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._look = look
        self._looking: asyncio.Task[None] | None = None
        self._waiters: defaultdict[int, set[Waiter[T]]] = defaultdict(set)

    def __len__(self) -> int:
        """Count those who wait now."""
        return sum(map(len, self._waiters.values()))

    def __contains__(self, key: int) -> bool:
        """Say whether somebody waits for something."""
        return key in self._waiters

    @property
    def keys(self) -> list[int]:
        """List what is waited for."""
        return list(self._waiters)

    @property
    def is_looking(self) -> bool:
        """Say whether somebody looks for those who wait."""
        return self._looking is not None and not self._looking.done()

    @contextmanager
    def one(self, key: int, waiter: Waiter[T]) -> Iterator[None]:
        """Have a caller among those who wait, during a block."""
        self._waiters[key].add(waiter)
        if not self.is_looking:
            self._looking = asyncio.create_task(self._look(), name="looking for those who wait")
        try:
            yield
        finally:
            self._waiters[key].discard(waiter)
            if not self._waiters[key]:
                del self._waiters[key]

    def tell(self, key: int, value: T) -> None:
        """Tell something to those who wait for it."""
        for waiter in self._waiters.get(key, ()):
            waiter.tell(value)

    def end_all(self) -> None:
        """Let nobody who is there wait any longer."""
        for waiter in chain.from_iterable(self._waiters.values()):
            waiter.end()

    async def aclose(self) -> None:
        """Let nobody wait any longer, and look no more."""
        self.end_all()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
