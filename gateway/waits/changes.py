"""Wait for the next record of the log: one poll for all viewers of the console at one gateway.

The waits of all viewers end at the same moment, so that one statement looks up the sessions of many viewers.
"""

import asyncio
import time
from contextlib import suppress

from shardclock.log.async_reading import log_end
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StatementRefused, StoreUnavailable

POLL_S = 1.0
REFRESH_S = 5.0  # Refresh pages even without a new record, because ages, new timers and keepers also change the pages.
IDLE_POLLS = 2  # The task ends after this many polls without a viewer; a viewer is absent between two waits.


class LogChanges:
    """Read the end of the log once a second while there are viewers."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._task: asyncio.Task[None] | None = None
        self._viewers = 0
        self._changed = asyncio.Event()

    async def aclose(self) -> None:
        """Stop the poll."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def stop(self) -> None:
        """End all current waits, as after a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next change, or for the next refresh of all pages."""
        self._viewers += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._poll(), name="console changes")
            await self._changed.wait()
        finally:
            self._viewers -= 1

    async def _poll(self) -> None:
        try:
            await self._poll_while_viewed()
        finally:
            self.stop()  # the next viewer that waits starts the poll again

    async def _poll_while_viewed(self) -> None:
        position: int | None = None
        idle_polls, refreshed_s = 0, time.monotonic()
        while idle_polls < IDLE_POLLS:
            end = position
            with suppress(StoreUnavailable, StatementRefused):
                async with self._pool.session(NO_TENANTS) as session:
                    end = await log_end(session)
            if position not in (None, end) or time.monotonic() - refreshed_s >= REFRESH_S:
                self.stop()
                refreshed_s = time.monotonic()
            position = end
            await asyncio.sleep(POLL_S)
            idle_polls = 0 if self._viewers else idle_polls + 1
