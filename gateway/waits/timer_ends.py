"""Wait until a timer has ended: fired, and delivered if it has a target; or cancelled or skipped.

While callers wait, one task of the gateway reads the log for all callers, so a wait needs no Postgres
connection of its own.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice

from starlette.types import Receive

from shardclock.log import LogRecord
from shardclock.log.async_link import CHANNEL
from shardclock.log.async_reading import log_end
from shardclock_server.gateway.waits.wait import Wait, Waits
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.log.ends import End, find_ends, records_at, skim_ends
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

READ_MAX = 2_000
CHECK_MAX = 500
WHOLE_MAX = 50  # One read returns at most this many records with their payloads, 3 MB.
CHECK_S = 2.0  # The first check of a wait may take this long, even if the wait itself is shorter.
POLL_S = 0.05  # The time between two reads of the log, if no notification comes.
AWAY_S = 0.2  # The time between two retries while Postgres is away.


async def find_end(session: Session, timer_key: int) -> LogRecord | None:
    """Find the record that ended a timer; None: the timer has not ended.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    if not (ends := await find_ends(session, [timer_key])):
        return None
    records = await records_at(session, ends)
    return records[0] if records else None


class _Wait(Wait):
    """A wait for the record that ends a timer; `checked` is set after the check whether the timer has ended already."""

    __slots__ = ("checked", "record")

    def __init__(self, receive: Receive, *, within_s: float) -> None:
        super().__init__(receive, within_s=within_s)
        self.record: LogRecord | None = None
        # asyncio.Event would take five times as much memory.
        self.checked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def mark_checked(self) -> None:
        """Record that the check is done."""
        if not self.checked.done():
            self.checked.set_result(None)

    def end_with(self, record: LogRecord) -> None:
        """End the wait with the record that ended the timer; a second record is ignored."""
        self.record = self.record or record
        self.end()

    def end(self) -> None:
        """End the wait."""
        self.mark_checked()
        super().end()


class TimerEnds:
    """All waits for ends of timers at one gateway, and the task that reads the log for these waits."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._reading = Session(dsn, application="shardclock gateway log")
        self._reading.serve(ALL_TENANTS)  # the caller's tenant was checked before the wait
        self._notifications = NotificationListener(
            Session(dsn, application="shardclock gateway notifications"), CHANNEL
        )
        self._waits: Waits[int, _Wait] = Waits(self._read)
        self._new: dict[_Wait, int] = {}  # The waits with unchecked timers, and the timers' keys.
        self._check_size = CHECK_MAX  # One check reads at most this many timers.
        self._read_at_s = 0.0  # The time at which the log was last read to its end, or at which the reading started.

    async def aclose(self) -> None:
        """End all waits, and close the connections."""
        await self._waits.aclose()
        await self._notifications.close()
        await self._reading.close()

    @property
    def count(self) -> int:
        """Count the waits."""
        return len(self._waits)

    @property
    def behind_s(self) -> float:
        """Return the time since the log was last read to its end; 0 without waits."""
        return time.monotonic() - self._read_at_s if self._waits else 0.0

    def stop(self) -> None:
        """End all waits, because the gateway stops."""
        self._waits.stop()

    async def end_of(self, timer_key: int, receive: Receive, *, within_s: float) -> LogRecord | None:
        """Find the record that ended a timer, or wait for this record; the caller must hold a slot.

        shape:   None: the timer has not ended in `within_s`, the gateway stops, or the client has disconnected
        """
        if not self._waits.are_watched:
            self._read_at_s = time.monotonic()
        wait = _Wait(receive, within_s=within_s)
        self._new[wait] = timer_key
        try:
            with self._waits.one(timer_key, wait):
                await wait.pause()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_S):
                        await wait.checked
        finally:
            self._new.pop(wait, None)
        return wait.record

    async def _read(self) -> None:
        """Read the log, and end the waits for ended timers, until no waits are left."""
        position: int | None = None
        while self._waits:
            try:
                if position is None:
                    position = await log_end(self._reading)
                # The check finds ends before this position, and the log reader finds later ends, so no end is missed.
                await self._check()
                self._notifications.forget()
                position = await self._read_some(position)
            except (StoreUnavailable, StatementRefused):
                await asyncio.sleep(AWAY_S)

    async def _read_some(self, position: int) -> int:
        """Read the log from a position, and return the next position; without new records, wait for a notification."""
        skimmed = await skim_ends(self._reading, position, limit=READ_MAX)
        if skimmed.records < READ_MAX:
            self._read_at_s = time.monotonic()
        await self._end_waits([end for end in skimmed.ends if end.timer_key in self._waits])
        if not skimmed.records and not self._new:
            await self._notifications.wait(POLL_S)
        return skimmed.next

    async def _check(self) -> None:
        """Check whether the timers of new waits have ended already.

        A check that takes too long is retried later for fewer timers; meanwhile the log reader serves all waits.
        """
        while waits := dict(islice(self._new.items(), self._check_size)):
            try:
                await self._end_waits(await find_ends(self._reading, set(waits.values())))
            except (StoreUnavailable, StatementRefused):
                self._defer(waits)
                await asyncio.sleep(AWAY_S)
                return
            self._check_size = min(2 * self._check_size, CHECK_MAX)
            for wait in waits:
                wait.mark_checked()
                self._new.pop(wait, None)

    def _defer(self, waits: Collection[_Wait]) -> None:
        """Move these waits behind the other waits, and halve the size of the next check."""
        self._check_size = max(1, len(waits) // 2)
        for wait in waits:
            if (key := self._new.pop(wait, None)) is not None:
                self._new[wait] = key

    async def _end_waits(self, ends: Sequence[End]) -> None:
        """End the waits of the ended timers; read the complete records in batches, because records may be large."""
        for begin in range(0, len(ends), WHOLE_MAX):
            for record in await records_at(self._reading, ends[begin : begin + WHOLE_MAX]):
                for wait in self._waits.of(record.timer_key):
                    wait.end_with(record)
