"""Wait until a timer has ended: fired, and delivered if it has a target; or cancelled or skipped.

One task of a gateway reads the log for all who wait there, and only while somebody waits. So a waiter costs a future,
and no connection, and hears of an end wherever it was written.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Any, Self

from starlette.requests import Request

from gateway.limits.places import Places
from gateway.requests.asked import seconds_of
from gateway.requests.problems import REFUSED, Problem
from sql.dsn import Dsn
from sql.hints import HintListener
from sql.log.hints import CHANNEL
from sql.log.records import LogRecord, last_records, log_end, read_log
from sql.session import ALL_TENANTS, Session, StatementRefused, StoreUnavailable
from timers.refusal import shortened

ENDS = frozenset({"CANCELED", "SKIPPED", "DELIVERED", "DISCARDED", "DEAD"})
WAIT_S_MAX = 300.0
READ_MAX = 2_000
LOOKS_MAX = 500
LOOK_S = 2.0  # for the first look, beyond a wait that was shorter
POLL_S = 0.05  # between two looks at the log, if no hint comes
AWAY_S = 0.2  # between two tries while Postgres is away


def is_end(record: LogRecord) -> bool:
    """Say whether nothing more will become of a timer after a record: of one with a target, its delivery has ended."""
    return record.intent in ENDS or (record.intent == "TRIGGERED" and not record.has_target)


async def find_ends(session: Session, timer_keys: Collection[int]) -> dict[int, LogRecord]:
    """Find the record that ended each of some timers; those that have not ended are left out.

    errors:  StoreUnavailable  no answer in time
    """
    ends: dict[int, LogRecord] = {}
    for record in filter(is_end, await last_records(session, timer_keys)):
        ends.setdefault(record.timer_key, record)
    return ends


def wait_s_of(text: str | None) -> float | None:
    """Read for how long a caller wants to wait; None: it does not.

    errors:  Problem  no duration, or more than five minutes
    """
    if text is None:
        return None
    wait_s = seconds_of("wait", text)
    if wait_s > WAIT_S_MAX:
        raise Problem(REFUSED, f"wait {shortened(text)} is refused: it must be at most PT{WAIT_S_MAX:.0f}S; ask again")
    return wait_s


@dataclass(slots=True, eq=False)
class _Waiter:
    """One who waits; `looked` is set when it is known whether the timer had ended before."""

    end: asyncio.Future[LogRecord | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    looked: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, end: LogRecord | None) -> None:
        """Let it wait no longer."""
        self.looked.set()
        if not self.end.done():
            self.end.set_result(end)


class Waiters:
    """Those who wait at one gateway, and the task that reads the log for them."""

    def __init__(self, dsn: Dsn | str, *, most: int) -> None:
        self.places = Places(most, doing="wait here", way_out="ask without wait, or another gateway")
        self._reading = Session(dsn, application="shardclock gateway log")
        self._reading.serve(ALL_TENANTS)  # an end is told to who waits for its key, and that was the caller's own
        self._hints = HintListener(Session(dsn, application="shardclock gateway hints"), CHANNEL)
        self._waiting: defaultdict[int, set[_Waiter]] = defaultdict(set)
        self._new: dict[_Waiter, int] = {}  # of which timer, for whom nobody has looked yet
        self._reader: asyncio.Task[None] | None = None
        self._read_at_s = 0.0  # when the log was last read to its end, or began to be
        self._is_stopping = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        await self._hints.close()
        await self._reading.close()

    @property
    def count(self) -> int:
        """Count those who wait now."""
        return sum(map(len, self._waiting.values()))

    @property
    def behind_s(self) -> float:
        """Say for how long the log has not been read to its end; 0 if nobody waits."""
        return time.monotonic() - self._read_at_s if self._waiting else 0.0

    @property
    def is_stopping(self) -> bool:
        """Say whether nobody is to wait any more."""
        return self._is_stopping

    def stop(self) -> None:
        """Let nobody wait any longer: the gateway ends."""
        self._is_stopping = True
        for waiter in (waiter for waiters in self._waiting.values() for waiter in waiters):
            waiter.tell(None)

    async def end_of(self, timer_key: int, request: Request, *, within_s: float) -> LogRecord | None:
        """Wait for the record that ends a timer, or find it if it is written already; the caller has one of the places.

        shape:   None: it has not ended `within_s`, or the gateway stops, or whoever asked has gone
        """
        if self._is_stopping:
            return None
        waiter = _Waiter()
        self._waiting[timer_key].add(waiter)
        self._new[waiter] = timer_key
        if self._reader is None or self._reader.done():
            self._read_at_s = time.monotonic()
            self._reader = asyncio.create_task(self._read(), name="log reader")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await _first(waiter.end, request)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await waiter.looked.wait()
        finally:
            self._new.pop(waiter, None)
            self._waiting[timer_key].discard(waiter)
            if not self._waiting[timer_key]:
                del self._waiting[timer_key]
        return waiter.end.result() if waiter.end.done() else None

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
                self._tell(record)
        if records:
            return records[-1].position
        if not self._new:
            await self._hints.wait(POLL_S)
        return position

    async def _look(self) -> None:
        """Find out, for those who have come since the last time, whether their timers have ended already."""
        while self._new:
            waiters = dict(islice(self._new.items(), LOOKS_MAX))
            for end in (await find_ends(self._reading, set(waiters.values()))).values():
                self._tell(end)
            for waiter in waiters:
                waiter.looked.set()
                self._new.pop(waiter, None)

    def _tell(self, end: LogRecord) -> None:
        for waiter in self._waiting.get(end.timer_key, ()):
            waiter.tell(end)


async def _first(end: asyncio.Future[LogRecord | None], request: Request) -> None:
    """Wait for the end, or until whoever asked has gone."""
    gone = asyncio.create_task(_until_gone(request))
    try:
        futures: list[asyncio.Future[Any]] = [end, gone]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
