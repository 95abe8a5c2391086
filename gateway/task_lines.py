"""Callers that wait for service tasks of a type: one of each type looks, and the others stand in line behind it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from weakref import WeakValueDictionary

from sql.deliveries.hints import DELIVERIES
from sql.dsn import Dsn
from sql.hints import HintListener
from sql.session import Session, StatementRefused, StoreUnavailable

LOOK_S = 0.5  # between two looks for tasks, if no hint comes
LISTEN_S = 10.0  # the longest wait for one hint; then the connection is looked at

T = TypeVar("T")


class TaskLines:
    """Hold one gateway's lines, one for each tenant and type of task, and listen for hints of new tasks."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._hints = HintListener(Session(dsn, application="shardclock gateway tasks"), DELIVERIES)
        self._lines: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._rung = asyncio.Event()  # replaced each time it is set
        self._listening: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def aclose(self) -> None:
        """Let nobody wait any longer, and close the connection."""
        self.stop()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        await self._hints.close()

    def stop(self) -> None:
        """Let nobody wait any longer."""
        self._is_stopping = True
        self._ring()

    async def wait(
        self,
        tenant_id: str,
        task_type: str,
        look: Callable[[], Awaitable[T]],
        *,
        found: Callable[[T], bool],
        is_gone: Callable[[], Awaitable[bool]],
        within_s: float,
    ) -> T:
        """Look until something is found, the caller is gone, or the time is over; return what the last look gave.

        A look is never broken off: what it has taken would be nobody's until its lease runs out.
        """
        until_s = time.monotonic() + within_s
        seen = await look()
        if found(seen) or within_s <= 0:
            return seen
        self._listen()
        line = self._lines.setdefault((tenant_id, task_type), asyncio.Lock())
        try:
            await asyncio.wait_for(line.acquire(), within_s)
        except TimeoutError:
            return seen
        try:
            while not (found(seen) or self._is_stopping or time.monotonic() >= until_s or await is_gone()):
                rung = self._rung
                seen = await look()
                if not found(seen):
                    await _wait(rung, min(LOOK_S, until_s - time.monotonic()))
            return seen
        finally:
            line.release()

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._keep_listening(), name="hints of tasks")

    async def _keep_listening(self) -> None:
        while True:
            try:
                if await self._hints.wait(LISTEN_S):
                    self._hints.forget()
                    self._ring()
            except (StoreUnavailable, StatementRefused):
                await asyncio.sleep(LOOK_S)

    def _ring(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            await event.wait()
