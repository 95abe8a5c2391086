"""Callers that wait for service tasks of one type stand in a line. When there is a task, the first of them takes it.

One task of a gateway asks for all lines where something is due: at each hint of new deliveries, and twice a second. So
it costs the same however many callers wait, and tasks of another type cause no look.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from starlette.types import Receive

from shardclock_server.gateway.waits.wait import Wait, Waits
from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.deliveries.hints import DELIVERIES
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.hints import HintListener
from shardclock_server.sql.processes.service_tasks import lanes_with_tasks
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

ASK_S = 0.5  # between two questions where tasks are, if no hint comes
GAP_S = 0.01  # after each

T = TypeVar("T")


class TaskLines:
    """Hold one gateway's lines, and ring the first caller of each when there are tasks for it."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._session = Session(dsn, application="shardclock gateway tasks")
        self._session.serve(ALL_TENANTS)  # a caller's own look says what it may have
        self._hints = HintListener(self._session, DELIVERIES)
        self._waits: Waits[Lane, Wait] = Waits(self._watch)

    async def aclose(self) -> None:
        """End all waits, and close the connection."""
        await self._waits.aclose()
        await self._session.close()

    def stop(self) -> None:
        """End all waits: the gateway stops."""
        self._waits.stop()

    async def wait(
        self, lane: Lane, look: Callable[[], Awaitable[T | None]], receive: Receive, *, within_s: float
    ) -> T | None:
        """Look until something is found; None: the time is over, the client has disconnected, or the gateway stops.

        A new caller stands behind the waiting ones. A look is never broken off: a task that it has taken would
        belong to no caller until its lease runs out.
        """
        if not (lane in self._waits and within_s > 0) and (found := await look()) is not None:
            return found
        if within_s <= 0:
            return None

        async def look_if_first() -> T | None:
            return await look() if self._is_first(lane, wait) else None

        with self._waits.one(lane, Wait(receive, within_s=within_s)) as wait:
            if self._is_first(lane, wait):
                wait.ring()  # a task may have come since the look
            try:
                return await wait.find(look_if_first)
            finally:
                if self._is_first(lane, wait):
                    self._ring([lane], place=1)

    def _is_first(self, lane: Lane, wait: Wait) -> bool:
        return self._waits.of(lane)[0] is wait

    async def _watch(self) -> None:
        while self._waits:
            try:
                await self._hints.wait(ASK_S)
                self._hints.forget()
                self._ring(await lanes_with_tasks(self._session, self._waits.keys))
            except (StoreUnavailable, StatementRefused):
                self._ring(self._waits.keys)  # each looks, and answers its caller
                await asyncio.sleep(ASK_S)
            await asyncio.sleep(GAP_S)

    def _ring(self, lanes: Iterable[Lane], *, place: int = 0) -> None:
        for lane in lanes:
            for wait in self._waits.of(lane)[place : place + 1]:
                wait.ring()
