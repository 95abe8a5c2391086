"""Handle dead letters as an operator would: redrive a third, discard a third, and leave a third."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from shardclock_server.sql.deliveries.dead_letters import (
    DeadLetterFilter,
    discard_dead_letters,
    find_dead_letters,
    redrive_dead_letters,
)
from shardclock_server.sql.session import Session, StoreUnavailable

POLL_S = 1.0
LIMIT = 500  # One pass reads at most this many dead letters, the newest first; earlier passes have handled the others.
EVERY = DeadLetterFilter()


class Operator:
    """Handle dead letters every second; `redriven` has the keys of the redriven deliveries."""

    def __init__(self, dsn: str) -> None:
        self.redriven: set[int] = set()
        self._session = Session(dsn, application="chaos operator")

    async def run(self) -> None:
        """Repeat one pass every second until the task is cancelled."""
        try:
            while True:
                # If the answer of a statement is lost, the next pass finds the remaining dead letters.
                with suppress(StoreUnavailable):
                    await self.turn()
                await asyncio.sleep(POLL_S)
        finally:
            await self._session.close()

    async def turn(self) -> None:
        """Redrive and discard the dead letters that one query returns.

        errors:  StoreUnavailable  the outcome is unknown
        """
        found, _ = await find_dead_letters(self._session, EVERY, limit=LIMIT)
        keys = [letter.timer_key for letter in found]
        if again := [key for key in keys if self.is_to_redrive(key)]:
            self.redriven |= set(await redrive_dead_letters(self._session, again))
        if discarded := [key for key in keys if is_to_discard(key)]:
            await discard_dead_letters(self._session, discarded, reason="chaos")

    def is_to_redrive(self, key: int) -> bool:
        """Return whether the operator must redrive a dead letter, and has not done so yet."""
        return key % 3 == 1 and key not in self.redriven

    def has_done(self, keys: list[int]) -> bool:
        """Return whether all given dead letters are handled."""
        return not any(self.is_to_redrive(key) or is_to_discard(key) for key in keys)


def is_to_discard(key: int) -> bool:
    """Return whether a dead letter is in the third that the operator discards."""
    return key % 3 == 2
