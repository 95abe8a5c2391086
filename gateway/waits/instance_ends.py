"""Wait until an instance of a process has ended.

One task of a gateway asks for all callers that wait there, and only while there are waits. So a wait costs no
connection.
"""

import asyncio
import time
from contextlib import suppress
from itertools import chain

from starlette.types import Receive

from shardclock_server.gateway.waits.wait import Wait, Waits
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.processes.instances import ended_instances
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused, StoreUnavailable

LOOK_S, LOOK_MAX_S = 0.02, 0.25  # between two looks: after a wait has begun or ended, and while nothing happens
LOOK_SHARE = 0.2  # of the time, at most, that looks take
AWAY_S = 0.2  # between two tries while Postgres is away


class InstanceEnds:
    """All waits for ends of instances at one gateway, and the task that looks for ends."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._session = Session(dsn, application="shardclock gateway instances", plans=QUEUE_PLANS)
        self._session.serve(ALL_TENANTS)  # an end is told to who waits for its key, and that was the caller's own
        self._waits: Waits[int, Wait] = Waits(self._watch)
        self._came = asyncio.Event()

    async def aclose(self) -> None:
        """End all waits, and close the connection."""
        await self._waits.aclose()
        await self._session.close()

    @property
    def count(self) -> int:
        """Count the waits."""
        return len(self._waits)

    def stop(self) -> None:
        """End all waits: the gateway stops."""
        self._waits.stop()

    async def wait(self, instance_key: int, receive: Receive, *, within_s: float) -> None:
        """Wait until an instance has ended, the time is over, the gateway stops, or the client has disconnected."""
        if within_s <= 0:
            return
        self._came.set()
        with self._waits.one(instance_key, Wait(receive, within_s=within_s)) as wait:
            await wait.pause()

    async def _watch(self) -> None:
        """End the waits for each instance that has ended, until there are no waits."""
        pause_s = 0.0
        while self._waits:
            began_s = time.monotonic()
            try:
                ended = await ended_instances(self._session, self._waits.keys)
            except (StoreUnavailable, StatementRefused):
                await asyncio.sleep(AWAY_S)
                continue
            for wait in chain.from_iterable(map(self._waits.of, ended)):
                wait.end()
            await asyncio.sleep(max(LOOK_S, (time.monotonic() - began_s) / LOOK_SHARE))
            pause_s = 0.0 if ended or self._came.is_set() else min(2 * pause_s + LOOK_S, LOOK_MAX_S)
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._came.wait()
