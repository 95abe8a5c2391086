"""Yield to other tasks during long work, so that no task blocks the event loop for more than 20 ms."""

import asyncio
import time

TURN_S = 0.004  # a task yields after it has run for this long


class Yielder:
    """Yields to the event loop during a loop over many items: call `yield_if_due` after each item."""

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + TURN_S

    async def yield_if_due(self) -> None:
        """Let other tasks run, if this task has run for longer than the limit."""
        if time.perf_counter() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + TURN_S
