"""Calls that are under way, and that nobody awaits."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

Broken = Callable[[BaseException], None]


class Calls:
    """Keep the tasks of calls until they end.

    Whatever a target does is an outcome. So a task that ends by an error is a fault of ours, and it would leave its
    deliveries in hand for as long as the worker lives: `broken` is told.
    """

    def __init__(self, broken: Broken) -> None:
        self._broken = broken
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Count them."""
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        """List them."""
        return iter(self._tasks)

    def begin(self, call: Coroutine[Any, Any, None]) -> None:
        """Begin a call."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def break_off(self) -> None:
        """Cancel all, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)
