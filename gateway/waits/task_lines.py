"""Callers that wait for service tasks of one type stand in a line. When there is a task, the first of them takes it.

One task of a gateway asks for all lines where something is due: at each hint of new deliveries, and twice a second. So
it costs the same however many wait, and nobody looks in vain because there are tasks of another type.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakValueDictionary

from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.deliveries.hints import DELIVERIES
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.hints import HintListener
from shardclock_server.sql.processes.service_tasks import lanes_with_tasks
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

ASK_S = 0.5  # between two questions where tasks are, if no hint comes
GAP_S = 0.01  # after each
GONE_S = 1.0  # between two looks whether a caller has hung up

T = TypeVar("T")


@dataclass(eq=False)
class _Line:
    """Those who wait for one lane: the first of them has the lock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    rung: asyncio.Event = field(default_factory=asyncio.Event)


class TaskLines:
    """Hold one gateway's lines, and tell the first in each when there are tasks for it."""

    def __init__(self, dsn: Dsn | str, stopping: asyncio.Event) -> None:
        self._session = Session(dsn, application="shardclock gateway tasks")
        self._session.serve(ALL_TENANTS)  # a caller's own look says what it may have
        self._hints = HintListener(self._session, DELIVERIES)
        self._lines: WeakValueDictionary[Lane, _Line] = WeakValueDictionary()
        self._ringing: asyncio.Task[None] | None = None
        self._stopping = stopping

    async def aclose(self) -> None:
        """Let nobody wait any longer, and close the connection."""
        self._stopping.set()
        self.wake_all()
        if self._ringing is not None:
            self._ringing.cancel()
            await asyncio.gather(self._ringing, return_exceptions=True)
        await self._session.close()

    def wake_all(self) -> None:
        """Let all look once more, and nobody wait any longer if the gateway stops."""
        self._ring(self._lines)

    async def wait(
        self,
        lane: Lane,
        look: Callable[[], Awaitable[T]],
        *,
        nothing: T,
        is_gone: Callable[[], Awaitable[bool]],
        within_s: float,
    ) -> T:
        """Look until something else than `nothing` is found, the caller is gone, or the time is over; return it.

        A caller that comes while others wait stands behind them. A look is never broken off: what it has taken would be
        nobody's until its lease runs out.
        """
        until_s = time.monotonic() + within_s
        line = self._lines.setdefault(lane, _Line())
        if not (line.lock.locked() and within_s > 0) and (seen := await look()) is not nothing:
            return seen
        if within_s <= 0 or not await _is_first(line.lock, is_gone, until_s):
            return nothing
        self._begin_ringing()
        try:
            line.rung.clear()  # before the look at `stopping`: the ring that comes with it is heard
            while not (self._stopping.is_set() or await is_gone()):
                if (seen := await look()) is not nothing or not await _until_rung(line.rung, is_gone, until_s):
                    return seen
                line.rung.clear()
            return nothing
        finally:
            line.lock.release()

    def _begin_ringing(self) -> None:
        if self._ringing is None:
            self._ringing = asyncio.create_task(self._keep_ringing(), name="tasks for who waits")

    async def _keep_ringing(self) -> None:
        while True:
            try:
                await self._hints.wait(ASK_S)
                self._hints.forget()
                self._ring(await lanes_with_tasks(self._session, list(self._lines)))
            except (StoreUnavailable, StatementRefused):
                self._ring(self._lines)  # each learns by its own look what to tell its caller
                await asyncio.sleep(ASK_S)
            await asyncio.sleep(GAP_S)

    def _ring(self, lanes: Iterable[Lane]) -> None:
        for lane in list(lanes):
            if (line := self._lines.get(lane)) is not None:
                line.rung.set()


async def _is_first(lock: asyncio.Lock, is_gone: Callable[[], Awaitable[bool]], until_s: float) -> bool:
    """Stand in line until nobody stands before; False: the time was over before, or the caller has hung up."""
    acquiring = asyncio.create_task(lock.acquire())
    try:
        while not acquiring.done() and (left_s := until_s - time.monotonic()) > 0 and not await is_gone():
            await asyncio.wait({acquiring}, timeout=min(GONE_S, left_s))
        return acquiring.done()
    except asyncio.CancelledError:
        if acquiring.done():
            lock.release()
        raise
    finally:
        acquiring.cancel()


async def _until_rung(rung: asyncio.Event, is_gone: Callable[[], Awaitable[bool]], until_s: float) -> bool:
    """Wait until the event is set; False: the time was over before, or the caller has hung up."""
    while not rung.is_set():
        left_s = until_s - time.monotonic()
        if left_s <= 0 or await is_gone():
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(GONE_S, left_s)):
                await rung.wait()
    return True
