"""Wait until a timer has ended: fired, and delivered if it has a target; or cancelled or skipped.

One task of a gateway reads the log for all callers that wait there, and only while there are waits. So a wait costs no
connection, and an end is heard wherever it was written.
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
from shardclock_server.sql.hints import HintListener
from shardclock_server.sql.log.ends import End, find_ends, records_at, skim_ends
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

READ_MAX = 2_000
LOOKS_MAX = 500
WHOLE_MAX = 50  # records with their payloads, at once: 3 MB at most
LOOK_S = 2.0  # for the first look, beyond a wait that was shorter
POLL_S = 0.05  # between two looks at the log, if no hint comes
AWAY_S = 0.2  # between two tries while Postgres is away


async def find_end(session: Session, timer_key: int) -> LogRecord | None:
    """Find the record that ended a timer; None: it has not ended.

    errors:  StoreUnavailable  no answer in time
    """
    if not (ends := await find_ends(session, [timer_key])):
        return None
    records = await records_at(session, ends)
    return records[0] if records else None


class _Wait(Wait):
    """A wait for the record that ends a timer; `looked` is done when it is known whether the timer had ended before."""

    __slots__ = ("looked", "record")

    def __init__(self, receive: Receive, *, within_s: float) -> None:
        super().__init__(receive, within_s=within_s)
        self.record: LogRecord | None = None
        # An event would take up five times as much.
        self.looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def was_looked_for(self) -> None:
        """Say that it is known."""
        if not self.looked.done():
            self.looked.set_result(None)

    def tell(self, record: LogRecord) -> None:
        """End the wait with its record; only the first one counts."""
        self.record = self.record or record
        self.end()

    def end(self) -> None:
        """End the wait."""
        self.was_looked_for()
        super().end()


class TimerEnds:
    """All waits for ends of timers at one gateway, and the task that reads the log for them."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._reading = Session(dsn, application="shardclock gateway log")
        self._reading.serve(ALL_TENANTS)  # an end is told to who waits for its key, and that was the caller's own
        self._hints = HintListener(Session(dsn, application="shardclock gateway hints"), CHANNEL)
        self._waits: Waits[int, _Wait] = Waits(self._read)
        self._new: dict[_Wait, int] = {}  # their timers, for which no look has been made yet
        self._looks = LOOKS_MAX  # for so many of them at once
        self._read_at_s = 0.0  # when the log was last read to its end, or began to be

    async def aclose(self) -> None:
        """End all waits, and close the connections."""
        await self._waits.aclose()
        await self._hints.close()
        await self._reading.close()

    @property
    def count(self) -> int:
        """Count the waits."""
        return len(self._waits)

    @property
    def behind_s(self) -> float:
        """Say for how long the log has not been read to its end; 0 without waits."""
        return time.monotonic() - self._read_at_s if self._waits else 0.0

    def stop(self) -> None:
        """End all waits: the gateway stops."""
        self._waits.stop()

    async def end_of(self, timer_key: int, receive: Receive, *, within_s: float) -> LogRecord | None:
        """Wait for the record that ends a timer, or find it if it is written already; the caller has one of the places.

        shape:   None: it has not ended `within_s`, or the gateway stops, or the client has disconnected
        """
        if not self._waits.are_watched:
            self._read_at_s = time.monotonic()
        wait = _Wait(receive, within_s=within_s)
        self._new[wait] = timer_key
        try:
            with self._waits.one(timer_key, wait):
                await wait.pause()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await wait.looked
        finally:
            self._new.pop(wait, None)
        return wait.record

    async def _read(self) -> None:
        """Read the log and tell each end to the waits for it, until there are no waits."""
        position: int | None = None
        while self._waits:
            try:
                if position is None:
                    position = await log_end(self._reading)
                # The look finds ends before this place, and the log has those after it. So none is missed.
                await self._look()
                self._hints.forget()
                position = await self._read_some(position)
            except (StoreUnavailable, StatementRefused):
                await asyncio.sleep(AWAY_S)

    async def _read_some(self, position: int) -> int:
        """Read the log from a place on, and return the place reached; if nothing new is there, wait for a hint."""
        skimmed = await skim_ends(self._reading, position, limit=READ_MAX)
        if skimmed.records < READ_MAX:
            self._read_at_s = time.monotonic()
        await self._tell([end for end in skimmed.ends if end.timer_key in self._waits])
        if not skimmed.records and not self._new:
            await self._hints.wait(POLL_S)
        return skimmed.next

    async def _look(self) -> None:
        """Find out for the new waits whether their timers have ended already.

        A look that takes too long is tried again later, for fewer at once: meanwhile the log is read for all waits.
        """
        while waits := dict(islice(self._new.items(), self._looks)):
            try:
                await self._tell(await find_ends(self._reading, set(waits.values())))
            except (StoreUnavailable, StatementRefused):
                self._put_off(waits)
                await asyncio.sleep(AWAY_S)
                return
            self._looks = min(2 * self._looks, LOOKS_MAX)
            for wait in waits:
                wait.was_looked_for()
                self._new.pop(wait, None)

    def _put_off(self, waits: Collection[_Wait]) -> None:
        """Let others go first the next time."""
        self._looks = max(1, len(waits) // 2)
        for wait in waits:
            if (key := self._new.pop(wait, None)) is not None:
                self._new[wait] = key

    async def _tell(self, ends: Sequence[End]) -> None:
        """Tell ends to the waits for them, with the whole records, of which each may be large."""
        for begin in range(0, len(ends), WHOLE_MAX):
            for record in await records_at(self._reading, ends[begin : begin + WHOLE_MAX]):
                for wait in self._waits.of(record.timer_key):
                    wait.tell(record)
