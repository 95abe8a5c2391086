"""Wait until a timer has ended: fired, and delivered if it has a target; or cancelled or skipped.

One task of a gateway reads the log for all who wait there, and only while somebody waits. So a waiter costs a future,
and hears of an end wherever it was written.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from starlette.requests import Request

from gateway.asked import seconds_of
from gateway.problems import REFUSED, Problem, unavailable
from sql.dsn import Dsn
from sql.hints import HintListener
from sql.log.hints import CHANNEL
from sql.log.records import LogRecord, log_end, read_log
from sql.session import Session, StoreUnavailable
from timers.refusal import shortened

LOG = "log"  # the target of a timer that calls nothing
ENDS = frozenset({"CANCELED", "SKIPPED", "DELIVERED", "DISCARDED", "DEAD"})
WAIT_S_MAX = 300.0
WAITING_MAX = 20_000
READ_MAX = 2_000
POLL_S = 0.05  # between two looks at the log, if no hint comes
AWAY_S = 0.2  # between two tries while Postgres is away

Look = Callable[[], Awaitable[LogRecord | None]]


def is_end(record: LogRecord) -> bool:
    """Say whether nothing more will become of a timer after a record: of one with a target, its delivery has ended."""
    return record.intent in ENDS or (record.intent == "TRIGGERED" and record.target == LOG)


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


class Waiters:
    """Those who wait at one gateway, and the task that reads the log for them."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._reading = Session(dsn, application="shardclock gateway log")
        self._hints = HintListener(Session(dsn, application="shardclock gateway hints"), CHANNEL)
        self._waiting: defaultdict[int, set[asyncio.Future[LogRecord | None]]] = defaultdict(set)
        self._count = 0
        self._reader: asyncio.Task[None] | None = None
        self._reads = asyncio.Event()  # from a position that is known
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
        return self._count

    @property
    def is_stopping(self) -> bool:
        """Say whether nobody is to wait any more."""
        return self._is_stopping

    def stop(self) -> None:
        """Let nobody wait any longer: the gateway ends."""
        self._is_stopping = True
        for end in (end for ends in self._waiting.values() for end in ends if not end.done()):
            end.set_result(None)

    async def end_of(self, timer_key: int, look: Look, request: Request, *, within_s: float) -> LogRecord | None:
        """Wait for the record that ends a timer; `look` finds it if it is written already.

        shape:   None: it has not ended `within_s`, or the gateway stops, or whoever asked has gone
        errors:  Problem           too many wait here
                 StoreUnavailable  no answer to the look
        """
        if self._is_stopping:
            return await look()
        if self._count >= WAITING_MAX:
            raise unavailable(f"{WAITING_MAX:,} wait here already; ask without wait, or another gateway")
        end: asyncio.Future[LogRecord | None] = asyncio.get_running_loop().create_future()
        self._waiting[timer_key].add(end)
        self._count += 1
        try:
            async with asyncio.timeout(within_s):
                # The look comes after the reader has its place: so an end is seen by one of the two.
                await self._ready()
                return await look() or await _first(end, request)
        except TimeoutError:
            return None
        finally:
            self._count -= 1
            self._waiting[timer_key].discard(end)
            if not self._waiting[timer_key]:
                del self._waiting[timer_key]

    async def _ready(self) -> None:
        if self._reader is None or self._reader.done():
            self._reads.clear()
            self._reader = asyncio.create_task(self._read(), name="log reader")
        await self._reads.wait()

    async def _read(self) -> None:
        """Read the log and tell each end to those who wait for it, until nobody waits."""
        position: int | None = None
        while self._waiting:
            try:
                if position is None:
                    position = await log_end(self._reading)
                    self._reads.set()
                self._hints.forget()
                records = await read_log(self._reading, position, limit=READ_MAX)
                if not records:
                    await self._hints.wait(POLL_S)
                    continue
            except StoreUnavailable:
                await asyncio.sleep(AWAY_S)
                continue
            position = records[-1].position
            for record in records:
                if record.timer_key in self._waiting and is_end(record):
                    for end in self._waiting[record.timer_key]:
                        if not end.done():
                            end.set_result(record)


async def _first(end: asyncio.Future[LogRecord | None], request: Request) -> LogRecord | None:
    """Wait for the end, or until whoever asked has gone."""
    gone = asyncio.create_task(_until_gone(request))
    try:
        futures: list[asyncio.Future[Any]] = [end, gone]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        return end.result() if end.done() else None
    finally:
        gone.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
