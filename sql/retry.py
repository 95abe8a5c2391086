"""Repeat calls that are safe to repeat while Postgres does not answer, for the use cases of clients."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sql.session import StoreUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a call is tried, and how long to wait before the second try; each later wait is twice as long."""

    attempts: int
    pause_s: float = 0.2
    pause_max_s: float = 5.0

    async def run(self, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Do the work until Postgres answers.

        shape:   the answer, and whether an earlier try may have done the work as well
        errors:  StoreUnavailable  no try got an answer
        """
        pause_s = self.pause_s
        for attempt in range(1, self.attempts):
            try:
                return await work(), attempt > 1
            except StoreUnavailable:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self.pause_max_s)
        return await work(), self.attempts > 1
