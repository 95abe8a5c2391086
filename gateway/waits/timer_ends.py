"""Wait until a timer has ended: fired, and delivered if it has a target; or cancelled or skipped.

One task of a gateway reads the log for all who wait there, and only while somebody waits. So a waiter costs no
connection, and hears of an end wherever it was written.
"""

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from itertools import islice

from starlette.requests import Request

from gateway.waits.waiter import Waiter, Waiting
from sql.dsn import Dsn
from sql.hints import HintListener
from sql.log.hints import CHANNEL
from sql.log.records import LogRecord, last_records, log_end, read_log
from sql.session import ALL_TENANTS, Session, StatementRefused, StoreUnavailable

ENDS = frozenset({"CANCELED", "SKIPPED", "DELIVERED", "DISCARDED", "DEAD"})
READ_MAX = 2_000
LOOKS_MAX = 500
LOOK_S = 2.0  # for the first look, beyond a wait that was shorter
POLL_S = 0.05  # between two looks at the log, if no hint comes
AWAY_S = 0.2  # between two tries while Postgres is away


def is_end(record: LogRecord) -> bool:
    """Say whether nothing more will become of a timer after a record: of one with a target, its delivery has ended."""
    return record.intent in ENDS or (record.intent == "TRIGGERED" and not record.is_delivered)


async def find_ends(session: Session, timer_keys: Collection[int]) -> dict[int, LogRecord]:
    """Find the record that ended each of some timers; those that have not ended are left out.

    errors:  StoreUnavailable  no answer in time
    """
    ends: dict[int, LogRecord] = {}
    for record in filter(is_end, await last_records(session, timer_keys)):
        ends.setdefault(record.timer_key, record)
    return ends


class _Waiter(Waiter[LogRecord]):
    """One who waits; `looked` is set when it is known whether the timer had ended before."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()

    def end(self) -> None:
        """Let it wait no longer."""
        self.looked.set()
        super().end()


class TimerEnds:
    """Those who wait for the ends of timers at one gateway, and the task that reads the log for them."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._reading = Session(dsn, application="shardclock gateway log")
        self._reading.serve(ALL_TENANTS)  # an end is told to who waits for its key, and that was the caller's own
        self._hints = HintListener(Session(dsn, application="shardclock gateway hints"), CHANNEL)
        self._waiting: Waiting[LogRecord] = Waiting(self._read)
        self._new: dict[_Waiter, int] = {}  # of which timer, for whom nobody has looked yet
        self._read_at_s = 0.0  # when the log was last read to its end, or began to be

    async def aclose(self) -> None:
        """Let nobody wait any longer, and close the connections."""
        await self._waiting.aclose()
        await self._hints.close()
        await self._reading.close()

    @property
    def count(self) -> int:
        """Count those who wait now."""
        return len(self._waiting)

    @property
    def behind_s(self) -> float:
        """Say for how long the log has not been read to its end; 0 if nobody waits."""
        return time.monotonic() - self._read_at_s if self._waiting else 0.0

    def stop(self) -> None:
        """Let nobody wait any longer: the gateway ends."""
        self._waiting.stop()

    async def end_of(self, timer_key: int, request: Request, *, within_s: float) -> LogRecord | None:
        """Wait for the record that ends a timer, or find it if it is written already; the caller has one of the places.

        shape:   None: it has not ended `within_s`, or the gateway stops, or whoever asked has gone
        """
        if self._waiting.is_stopping:
            return None
        if not self._waiting.is_looking:
            self._read_at_s = time.monotonic()
        waiter = _Waiter()
        self._new[waiter] = timer_key
        try:
            with self._waiting.one(timer_key, waiter):
                await waiter.wait(request, within_s=within_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await waiter.looked.wait()
        finally:
            self._new.pop(waiter, None)
        return waiter.told

    async def _read(self) -> None:
        """Read the log and tell each end to those who wait for it, until nobody waits."""
        position: int | None = None
        while self._waiting:
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
        records = await read_log(self._reading, position, limit=READ_MAX)
        if len(records) < READ_MAX:
            self._read_at_s = time.monotonic()
        for record in records:
            if record.timer_key in self._waiting and is_end(record):
                self._waiting.tell(record.timer_key, record)
        if records:
            return records[-1].position
        if not self._new:
            await self._hints.wait(POLL_S)
        return position

    async def _look(self) -> None:
        """Find out, for those who have come since the last time, whether their timers have ended already."""
        while self._new:
            waiters = dict(islice(self._new.items(), LOOKS_MAX))
            for key, end in (await find_ends(self._reading, set(waiters.values()))).items():
                self._waiting.tell(key, end)
            for waiter in waiters:
                waiter.looked.set()
                self._new.pop(waiter, None)
