"""Some sessions on one database, lent one at a time to whoever asks; those who ask wait for a short time only."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.served import ALL_TENANTS, Tenants
from shardclock_server.sql.session import CLIENT_PLANS, Session, StoreUnavailable
from shardclock_server.timers.refusal import shortened


class PoolEmpty(StoreUnavailable):
    """All sessions were lent for as long as somebody may wait: nothing was asked of Postgres."""


class ShareTaken(PoolEmpty):
    """One tenant had its share of all sessions for as long: others may still get one."""


class Pool:
    """Keep `size` sessions, each opened when it is first lent; for one tenant alone at most `share` are lent at a time.

    units:   `waited_s` is what all who have got a session have waited for it, `missed` counts those who got none
    """

    def __init__(
        self,
        dsn: Dsn | str,
        *,
        application: str,
        size: int,
        timeout_s: float,
        wait_s: float,
        share: int | None = None,
    ) -> None:
        self._wait_s = wait_s
        self._share = share or size
        self._shares: dict[Tenants, asyncio.Semaphore] = {}  # of those who have a session, or wait for one
        self._asking: Counter[Tenants] = Counter()
        self.size = size
        self.timeout_s = timeout_s
        self.lendings = 0
        self.waited_s = 0.0
        self.missed = 0
        self._sessions = [
            Session(dsn, application=application, timeout_s=timeout_s, plans=CLIENT_PLANS) for _ in range(size)
        ]
        # The last one that came back is lent first: then few connections are open while little is asked.
        self._free: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
        for session in reversed(self._sessions):
            self._free.put_nowait(session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions))

    @property
    def lent(self) -> int:
        """Count the sessions that are in use now."""
        return self.size - self._free.qsize()

    @asynccontextmanager
    async def session(self, tenants: Tenants, *, key_prefix: str = "") -> AsyncIterator[Session]:
        """Lend a session for the length of a block, in which it serves some tenants, or acts by an API key.

        errors:  PoolEmpty  none was free in time, or none of a tenant's share
        """
        begun_s = time.monotonic()
        until_s = asyncio.get_running_loop().time() + self._wait_s
        async with self._within_share(tenants, until_s):
            try:
                async with asyncio.timeout_at(until_s):
                    session = await self._free.get()
            except TimeoutError:
                self.missed += 1
                raise PoolEmpty(f"all {self.size} sessions on Postgres are in use; ask again in a moment") from None
            self.lendings += 1
            self.waited_s += time.monotonic() - begun_s
            session.serve(tenants, key_prefix)
            try:
                yield session
            finally:
                self._free.put_nowait(session)

    @asynccontextmanager
    async def spare(self, tenants: Tenants) -> AsyncIterator[Session | None]:
        """Lend a second session to who has one, without a wait: None, unless more than half of all are free."""
        if 2 * self._free.qsize() <= self.size:
            yield None
            return
        async with self.session(tenants) as session:
            yield session

    @asynccontextmanager
    async def _within_share(self, tenants: Tenants, until_s: float) -> AsyncIterator[None]:
        if self._share >= self.size or len(tenants) != 1 or tenants == ALL_TENANTS:
            yield
            return
        share = self._shares.setdefault(tenants, asyncio.Semaphore(self._share))
        self._asking[tenants] += 1
        try:
            try:
                async with asyncio.timeout_at(until_s):
                    await share.acquire()
            except TimeoutError:
                self.missed += 1
                raise ShareTaken(
                    f"tenant {shortened(*tenants)} has {self._share} of the {self.size} sessions on Postgres in use,"
                    " which is its share; ask again in a moment"
                ) from None
            try:
                yield
            finally:
                share.release()
        finally:
            self._asking[tenants] -= 1
            if not self._asking[tenants]:
                del self._asking[tenants], self._shares[tenants]
