"""Receive hints that there is something new to read.

A hint is never sent in a transaction that fires: at commit, NOTIFY takes a lock on the whole Postgres instance. After a
lost hint, the one who waits finds the rows with its next poll.
"""

import asyncio
import time

from shardclock_server.sql.session import Connection, Session

HINT_S = 0.5  # the longest wait for one hint, so that who was asked to stop notices
# A connection that was cut somewhere is as silent as one without hints: after this time it is asked for an answer.
SILENCE_S = 30.0


class HintListener:
    """Receive hints on the connection of a waiting worker, engine, shard or gateway."""

    def __init__(self, session: Session, channel: str) -> None:
        self._session = session
        self._channel = channel
        self._heard = asyncio.Event()
        self._said: set[str] = set()  # a hint says one of a few words, or nothing
        self._on: Connection | None = None
        self._heard_at_s = 0.0

    def forget(self) -> frozenset[str]:
        """Forget the hints so far, and return what they said: call this before reading, or a later one is lost."""
        said, self._said = frozenset(self._said), set()
        self._heard.clear()
        return said

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a hint that comes after `forget`, at most `timeout_s`; False if none came.

        errors:  StoreUnavailable  the connection was lost
        """
        async with self._session.connection() as connection:
            if connection is not self._on:
                await connection.add_listener(self._channel, self._hear)
                self._on, self._heard_at_s = connection, time.monotonic()
                return True  # a hint may have come before we listened: let the caller read first
            if time.monotonic() > self._heard_at_s + SILENCE_S:
                await connection.execute("select")
                self._heard_at_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._heard.wait()
        except TimeoutError:
            return False

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    def _hear(self, _connection: object, _pid: int, _channel: str, said: object) -> None:
        self._heard_at_s = time.monotonic()
        self._said.add(str(said))
        self._heard.set()
