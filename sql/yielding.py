"""Yield to other tasks during long work: no step of an event loop may take more than 20 ms."""

import asyncio
import time

TURN_S = 0.004  # a task yields after this much work, and after the call that exceeds it


class Yielder:
    """Yield the event loop during a loop over many items: call `yield_if_due` after each."""

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + TURN_S

    async def yield_if_due(self) -> None:
        """Let all other tasks run, if this task has run for long enough."""
        if time.perf_counter() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + TURN_S
