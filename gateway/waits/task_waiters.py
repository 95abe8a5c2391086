"""Queue the callers that wait for service tasks of one type; the first caller takes a task when a task is due.

One background task of the gateway finds the queues with due service tasks: at each notification of deliveries, and
twice a second. The cost of the polls does not depend on the number of callers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from starlette.types import Receive

from shardclock_server.gateway.waits.wait import Wait, Waits
from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.deliveries.notifications import DELIVERIES
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.sql.processes.service_tasks import lanes_with_tasks
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

POLL_S = 0.5  # The time between two polls, if no notification comes.
GAP_S = 0.01  # The pause after each poll.

T = TypeVar("T")


class TaskWaiters:
    """The queues of one gateway; the first caller of each queue is woken when the queue has tasks."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._session = Session(dsn, application="shardclock gateway tasks")
        # This session only finds queues to wake; the read of each caller is limited to the caller's tenant.
        self._session.serve(ALL_TENANTS)
        self._notifications = NotificationListener(self._session, DELIVERIES)
        self._waits: Waits[Lane, Wait] = Waits(self._watch)

    async def aclose(self) -> None:
        """End all waits, and close the connection."""
        await self._waits.aclose()
        await self._session.close()

    def stop(self) -> None:
        """End all waits, because the gateway stops."""
        self._waits.stop()

    async def wait(
        self, lane: Lane, read: Callable[[], Awaitable[T | None]], receive: Receive, *, within_s: float
    ) -> T | None:
        """Call `read` until it returns a task; None: the time is over, the client disconnects, or the gateway stops.

        A new caller goes to the end of its queue. A call of `read` is never cancelled, because a task that it has
        leased would stay locked until the lease ends.
        """
        if not (lane in self._waits and within_s > 0) and (found := await read()) is not None:
            return found
        if within_s <= 0:
            return None

        async def read_if_first() -> T | None:
            return await read() if self._is_first(lane, wait) else None

        with self._waits.one(lane, Wait(receive, within_s=within_s)) as wait:
            if self._is_first(lane, wait):
                wait.wake()  # a task may have become due since the first call of `read`
            try:
                return await wait.find(read_if_first)
            finally:
                if self._is_first(lane, wait):
                    self._wake([lane], position=1)

    def _is_first(self, lane: Lane, wait: Wait) -> bool:
        return self._waits.of(lane)[0] is wait

    async def _watch(self) -> None:
        while self._waits:
            try:
                await self._notifications.wait(POLL_S)
                self._notifications.forget()
                self._wake(await lanes_with_tasks(self._session, self._waits.keys))
            except (StoreUnavailable, StatementRefused):
                # wake all callers, so that their own reads fail, and their responses report the error
                self._wake(self._waits.keys)
                await asyncio.sleep(POLL_S)
            await asyncio.sleep(GAP_S)

    def _wake(self, lanes: Iterable[Lane], *, position: int = 0) -> None:
        for lane in lanes:
            for wait in self._waits.of(lane)[position : position + 1]:
                wait.wake()
