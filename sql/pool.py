"""A pool of database sessions: each session serves one caller at a time, and callers wait only briefly."""

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
    """No session became free within the caller's time limit. No statement was sent to Postgres."""


class ShareTaken(PoolEmpty):
    """A tenant's callers used all sessions of the tenant's share until the time limit.

    Callers of other tenants can still get a session.
    """


class Pool:
    """A pool of `size` sessions; each session is opened at its first use.

    The callers of one tenant use at most `share` sessions at a time.

    units:   `waited_s` is the total wait of all callers that got a session; `missed` is the number of callers that got
             none
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
        self._shares: dict[Tenants, asyncio.Semaphore] = {}  # for the tenants that use a session or wait for a session
        self._asking: Counter[Tenants] = Counter()
        self.size = size
        self.timeout_s = timeout_s
        self.lendings = 0
        self.waited_s = 0.0
        self.missed = 0
        self._sessions = [
            Session(dsn, application=application, timeout_s=timeout_s, plans=CLIENT_PLANS) for _ in range(size)
        ]
        # The session that was returned last is lent first, so that few connections are used under a low load.
        self._free: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
        for session in reversed(self._sessions):
            self._free.put_nowait(session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions))

    @property
    def lent(self) -> int:
        """Count the sessions in use."""
        return self.size - self._free.qsize()

    @asynccontextmanager
    async def session(self, tenants: Tenants, *, key_prefix: str = "") -> AsyncIterator[Session]:
        """Lend a session for one block; the session serves these tenants, and has the caller's API key.

        errors:  PoolEmpty  no session became free in time; ShareTaken if the tenant's share was in use
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
        """Lend a task a second session if more than half of the sessions are free; otherwise return None."""
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
