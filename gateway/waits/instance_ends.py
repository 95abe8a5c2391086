"""Wait until an instance of a process has ended.

While callers wait, one task of the gateway polls for all callers, so a wait needs no Postgres connection of its own.
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

# The pause between two polls: POLL_S after a wait has started or ended, later up to POLL_MAX_S.
POLL_S, POLL_MAX_S = 0.02, 0.25
POLL_SHARE = 0.2  # Polls take at most this share of the time.
AWAY_S = 0.2  # The time between two retries while Postgres is away.


class InstanceEnds:
    """All waits for ends of instances at one gateway, and the task that polls for ends."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._session = Session(dsn, application="shardclock gateway instances", plans=QUEUE_PLANS)
        self._session.serve(ALL_TENANTS)  # the caller's tenant was checked before the wait
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
        """End all waits, because the gateway stops."""
        self._waits.stop()

    async def wait(self, instance_key: int, receive: Receive, *, within_s: float) -> None:
        """Wait until an instance has ended, the time is over, the gateway stops, or the client disconnects."""
        if within_s <= 0:
            return
        self._came.set()
        with self._waits.one(instance_key, Wait(receive, within_s=within_s)) as wait:
            await wait.pause()

    async def _watch(self) -> None:
        """End the waits for ended instances, until no waits are left."""
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
            await asyncio.sleep(max(POLL_S, (time.monotonic() - began_s) / POLL_SHARE))
            pause_s = 0.0 if ended or self._came.is_set() else min(2 * pause_s + POLL_S, POLL_MAX_S)
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._came.wait()
