"""Receive notifications of new rows.

A transaction that fires timers never sends a notification: NOTIFY takes one lock of the whole server at the commit, so
that such transactions would wait for each other. If a notification is lost, the receiver's next poll finds the rows.
"""

import asyncio
import time

from shardclock_server.sql.session import Connection, Session

NOTIFICATION_WAIT_S = 0.5  # The longest wait for a notification, so that a task notices a stop request in time.
# If no notification comes, the connection may be broken: after this time a statement tests the connection.
SILENCE_S = 30.0


class NotificationListener:
    """Receive notifications on a separate connection, for a worker, engine, shard or gateway."""

    def __init__(self, session: Session, channel: str) -> None:
        self._session = session
        self._channel = channel
        self._heard = asyncio.Event()
        self._words: set[str] = set()  # the texts of the notifications: one of a few known words, or an empty text
        self._on: Connection | None = None
        self._heard_at_s = 0.0

    def forget(self) -> frozenset[str]:
        """Return and clear the words of the received notifications; call this before each read of the rows."""
        words, self._words = frozenset(self._words), set()
        self._heard.clear()
        return words

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a notification that comes after `forget`, for at most `timeout_s`; False if no notification came.

        errors:  StoreUnavailable  the connection was lost
        """
        async with self._session.connection() as connection:
            if connection is not self._on:
                await connection.add_listener(self._channel, self._hear)
                self._on, self._heard_at_s = connection, time.monotonic()
                return True  # earlier notifications are lost, so the caller must now read the rows
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

    def _hear(self, _connection: object, _pid: int, _channel: str, word: object) -> None:
        self._heard_at_s = time.monotonic()
        self._words.add(str(word))
        self._heard.set()
