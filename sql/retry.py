"""While Postgres does not answer, repeat calls that are safe to repeat."""

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
    """Repeat a call, with a limit of attempts and a pause between two attempts."""

    attempts: int
    backoff: Backoff = PAUSES

    async def run(self, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Run the work until Postgres answers, or until the last attempt.

        shape:   the result; then True if an earlier attempt got no answer, so that this attempt may have done the work,
                 too
        errors:  StoreUnavailable  no attempt got an answer
        """
        for attempt in range(1, self.attempts):
            try:
                return await work(), attempt > 1
            except StoreUnavailable:
                await asyncio.sleep(self.backoff.pause_s(attempt))
        return await work(), self.attempts > 1
