"""Share connections among clients, and record each call with its answer.

After a lost answer a client follows the docs: it repeats the call with the same keys until the outcome is known.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

from chaos.history.calls import Call
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.timers.refusal import InvalidTimer

# The limit of connections: sufficient for 250 calls a second and for the backlog after an outage. With fewer
# connections, clients would cancel endless schedules too late, which increases the load. Postgres allows 100
# connections in total.
SESSIONS = 60
ANSWER_S = 5.0
PATIENCE_S = 100.0  # The time limit for a client's retries, which is longer than each outage.
PAUSE_S = 0.3

Send: TypeAlias = Callable[[Session, Call], Awaitable[Call]]


class Clients:
    """Send each call on a free connection, and add the call with its answer to `calls`."""

    def __init__(self, dsn: str) -> None:
        self.calls: list[Call] = []
        self._numbers = itertools.count(1)
        self._sessions: asyncio.Queue[Session] = asyncio.Queue()
        self._all = [Session(dsn, application="chaos client", timeout_s=ANSWER_S) for _ in range(SESSIONS)]
        for session in self._all:
            self._sessions.put_nowait(session)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(session.close() for session in self._all))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Wait for a free connection, and reserve it while a block runs."""
        session = await self._sessions.get()
        try:
            yield session
        finally:
            self._sessions.put_nowait(session)

    async def until_known(self, call: Call, send: Send) -> Call:
        """Repeat a call until its outcome is known.

        Return the last repetition; its `resends` has the number of the first call.
        """
        give_up_at = time.monotonic() + PATIENCE_S
        first = call.resends
        while True:
            done = await self._send(replace(call, number=next(self._numbers), resends=first), send)
            self.calls.append(done)
            first = first or done.number
            if done.outcome != "unknown" or time.monotonic() > give_up_at:
                return replace(done, resends=first)
            await asyncio.sleep(PAUSE_S)

    async def _send(self, call: Call, send: Send) -> Call:
        async with self.session() as session:
            call = replace(call, began_at=time.time())
            try:
                call = await send(session, call)
            except StoreUnavailable as error:
                call = replace(call, outcome="unknown", error=str(error))
            except (InvalidTimer, StatementRefused) as error:
                call = replace(call, outcome="fail", error=str(error))
        return replace(call, ended_at=time.time())
