"""One caller's wait over HTTP, and the register of all waits of one kind at a gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from itertools import chain
from math import inf
from typing import Any, Generic, TypeVar

from starlette.types import Receive

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Wait:
    """A wait of one caller: it ends at the caller's deadline, when the client disconnects, or by a call of `end`.

    The wait runs in the caller's own task, so that thousands of waits need no further tasks.
    """

    __slots__ = ("_is_woken", "_receive", "_timeout", "_until_s", "is_gone", "is_over")

    def __init__(self, receive: Receive, *, within_s: float) -> None:
        self._receive = receive
        self._until_s = time.monotonic() + within_s
        self._timeout: asyncio.Timeout | None = None
        self._is_woken = False
        self.is_over = False
        self.is_gone = False  # the client has disconnected

    def wake(self) -> None:
        """End the present pause."""
        self._is_woken = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(0.0)

    def end(self) -> None:
        """End the wait."""
        self.is_over = True
        self.wake()

    async def pause(self, within_s: float = inf) -> None:
        """Pause until the next wake or until the end of the wait, but for at most `within_s`."""
        left_s = min(self._until_s - time.monotonic(), within_s)
        try:
            # A timeout of 0 is enough to receive a disconnect that has already arrived.
            async with asyncio.timeout(0.0 if self._is_woken else left_s) as self._timeout:
                while (await self._receive())["type"] != "http.disconnect":
                    pass
                self.is_gone = self.is_over = True
        except TimeoutError:
            self.is_over = self.is_over or time.monotonic() >= self._until_s
        finally:
            self._timeout, self._is_woken = None, False

    async def find(self, read: Callable[[], Awaitable[T | None]], *, every_s: float = inf) -> T | None:
        """Call `read` after each wake, each `every_s`, and at the end, until `read` returns a result.

        A call is never cancelled, and no call starts after the client has disconnected, because the result of the call
        would be lost.

        shape:   None: nothing was found
        errors:  as in `read`
        """
        while not self.is_over:
            await self.pause(every_s)
            if not self.is_gone and (found := await read()) is not None:
                return found
        return None


W = TypeVar("W", bound=Wait)


class Waits(Generic[K, W]):
    """The waits of one kind at one gateway, by the key of the awaited object; the oldest wait of a key comes first.

    The task of `watch` runs only while there are waits. The task wakes or ends the waits of all callers.
    """

    def __init__(self, watch: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        self._watch = watch
        self._watching: asyncio.Task[None] | None = None
        self._by_key: dict[K, dict[W, None]] = {}
        self.are_stopped = False

    def __len__(self) -> int:
        """Count the waits."""
        return sum(map(len, self._by_key.values()))

    def __contains__(self, key: K) -> bool:
        """Return whether there is a wait with a key."""
        return key in self._by_key

    @property
    def keys(self) -> list[K]:
        """List the keys of all waits."""
        return list(self._by_key)

    @property
    def are_watched(self) -> bool:
        """Whether the task of `watch` runs."""
        return self._watching is not None and not self._watching.done()

    def of(self, key: K) -> list[W]:
        """List the waits of a key, the oldest first."""
        return list(self._by_key.get(key, ()))

    @contextmanager
    def one(self, key: K, wait: W) -> Iterator[W]:
        """Register a wait during a `with` block; after `stop`, the wait ends immediately."""
        if self.are_stopped:
            wait.end()
        self._by_key.setdefault(key, {})[wait] = None
        if self._watch is not None and not self.are_watched:
            self._watching = asyncio.create_task(self._watch(), name="watching for waits")
        try:
            yield wait
        finally:
            del self._by_key[key][wait]
            if not self._by_key[key]:
                del self._by_key[key]

    def stop(self) -> None:
        """End all present and future waits, because the gateway stops."""
        self.are_stopped = True
        for wait in chain.from_iterable(self._by_key.values()):
            wait.end()

    async def aclose(self) -> None:
        """End all waits, and the task of `watch`."""
        self.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
