"""Keep the command log's days: made ahead, dropped behind. What fails here fails alone, and is tried again."""

import time

import structlog

from sql.partitions import OldestDay, drop_log_partition, ensure_log_partitions, forget_holders
from sql.session import Session, StatementRefused, StoreUnavailable

EVERY_S = 3600.0  # days are made a week ahead, so an hour is often enough
RETRY_S = 60.0
DROPS_MAX = 5  # in one turn: each locks the log for a moment


class Retention:
    """Look after the log's days now and then, as long as this coordinator leads."""

    def __init__(self, session: Session, *, keep_days: int) -> None:
        self._session = session
        self._keep_days = keep_days
        self._next_at = 0.0
        self._kept_for: str | None = None
        self._log = structlog.get_logger()

    async def turn(self) -> None:
        """Do what is due, if anything is; a failure is logged and tried again in a minute."""
        if time.monotonic() < self._next_at:
            return
        try:
            more = await self._keep()
        except (StoreUnavailable, StatementRefused) as error:
            self._log.warning("the log's days wait", error=str(error))
            more = True
        self._next_at = time.monotonic() + (RETRY_S if more else EVERY_S)

    async def _keep(self) -> bool:
        """Make and drop days; whether there may be more to drop."""
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
