"""Wait until an instance of a process has ended.

One task of a gateway asks for all who wait there, and only while somebody waits. So a waiter costs no connection.
"""

import asyncio
import time
from contextlib import suppress

from starlette.types import Receive

from shardclock_server.gateway.waits.waiter import Waiter, Waiting
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.processes.instances import ended_instances
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused, StoreUnavailable

LOOK_S, LOOK_MAX_S = 0.02, 0.25  # between two looks: after somebody came or was told, and while nothing happens
LOOK_SHARE = 0.2  # of the time, at most, that looks take
AWAY_S = 0.2  # between two tries while Postgres is away


class InstanceEnds:
    """Those who wait for the ends of instances at one gateway, and the task that looks for them."""

    def __init__(self, dsn: Dsn | str, stopping: asyncio.Event) -> None:
        self._session = Session(dsn, application="shardclock gateway instances", plans=QUEUE_PLANS)
        self._session.serve(ALL_TENANTS)  # an end is told to who waits for its key, and that was the caller's own
        self._waiting: Waiting[bool] = Waiting(self._look)
        self._came = asyncio.Event()
        self._stopping = stopping

    async def aclose(self) -> None:
        """Let nobody wait any longer, and close the connection."""
        await self._waiting.aclose()
        await self._session.close()

    @property
    def count(self) -> int:
        """Count those who wait now."""
        return len(self._waiting)

    def wake_all(self) -> None:
        """Let nobody wait any longer: the gateway stops."""
        self._waiting.end_all()

    async def wait(self, instance_key: int, receive: Receive, *, within_s: float) -> None:
        """Wait until an instance has ended, the time is over, the gateway stops, or whoever asked has gone."""
        if self._stopping.is_set() or within_s <= 0:
            return
        waiter: Waiter[bool] = Waiter()
        self._came.set()
        with self._waiting.one(instance_key, waiter):
            await waiter.wait(receive, within_s=within_s)

    async def _look(self) -> None:
        """Tell each end to those who wait for it, until nobody waits."""
        pause_s = 0.0
        while self._waiting:
            began_s = time.monotonic()
            try:
                ended = await ended_instances(self._session, self._waiting.keys)
            except (StoreUnavailable, StatementRefused):
                await asyncio.sleep(AWAY_S)
                continue
            for key in ended:
                self._waiting.tell(key, True)
            await asyncio.sleep(max(LOOK_S, (time.monotonic() - began_s) / LOOK_SHARE))
            pause_s = 0.0 if ended or self._came.is_set() else min(2 * pause_s + LOOK_S, LOOK_MAX_S)
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._came.wait()
