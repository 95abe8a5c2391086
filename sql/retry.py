"""Repeat safe calls while Postgres does not answer, for the use cases of clients."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from shardclock.backoff import Backoff
from shardclock_server.sql.session import StoreUnavailable

T = TypeVar("T")
PAUSES = Backoff(0.2, 5.0)


@dataclass(frozen=True, slots=True)
class StoreRetry:
    """Repeat a call: `StoreRetry` has the number of tries, and the pause between two tries."""

    attempts: int
    backoff: Backoff = PAUSES

    async def run(self, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Run the work until Postgres answers.

        shape:   the answer, and whether an earlier try without an answer may have done the work too
        errors:  StoreUnavailable  no try got an answer
        """
        for attempt in range(1, self.attempts):
            try:
                return await work(), attempt > 1
            except StoreUnavailable:
                await asyncio.sleep(self.backoff.pause_s(attempt))
        return await work(), self.attempts > 1
