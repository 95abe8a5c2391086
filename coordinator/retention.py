"""Create the command log's partitions for the next days, and drop old partitions.

A failed iteration is repeated, and does not affect other work.
"""

import time

import structlog

from shardclock.backoff import Backoff
from shardclock_server.sql.log.partitions import (
    OldestDay,
    drop_log_partition,
    ensure_log_partitions,
    forget_holders,
    mark_day,
)
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

EVERY_S = 3600.0  # Partitions are created a week ahead, so once an hour is often enough.
RETRY_S = 60.0  # Doubled after each failure; a dump can lock the log for hours.
DROPS_MAX = 5  # The limit for one iteration, because each drop of a partition locks the log for a moment.


class Retention:
    """Create and drop the log's partitions once an hour, while this coordinator leads."""

    def __init__(self, session: Session, *, keep_days: int) -> None:
        self._session = session
        self._keep_days = keep_days
        self._next_at_s = 0.0
        self._failures = 0
        self._kept_for: str | None = None
        self._log = structlog.get_logger()

    async def turn(self) -> None:
        """Create and drop partitions if the pause is over; log a failure, and wait longer after each failure."""
        if time.monotonic() < self._next_at_s:
            return
        try:
            pause_s = RETRY_S if await self._keep() else EVERY_S
            self._failures = 0
        except (StoreUnavailable, StatementRefused) as error:
            self._failures += 1
            pause_s = Backoff(RETRY_S, EVERY_S).pause_s(self._failures)
            self._log.warning("the log's days wait", error=str(error), retry_s=pause_s)
        self._next_at_s = time.monotonic() + pause_s

    async def _keep(self) -> bool:
        """Create and drop partitions; return whether more old partitions may be left."""
        await mark_day(self._session)
        await ensure_log_partitions(self._session)
        await forget_holders(self._session, keep_days=self._keep_days)
        for _ in range(DROPS_MAX):
            oldest = await drop_log_partition(self._session, keep_days=self._keep_days)
            if oldest is None:
                self._kept_for = None
                return False
            if not oldest.dropped:
                self._tell_once(oldest)
                return False
            self._log.info("dropped a day of the log", day=str(oldest.day))
        return True

    def _tell_once(self, oldest: OldestDay) -> None:
        if oldest.kept_for != self._kept_for:
            self._log.warning("a day of the log waits for its reader", day=str(oldest.day), group=oldest.kept_for)
        self._kept_for = oldest.kept_for
