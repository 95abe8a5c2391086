"""Notify engines and shards of new work; if a notification is lost, the next poll finds the work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.keepers.loops import upkeep
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.notification_sender import NotificationSender, Send


@asynccontextmanager
async def notifying(dsn: Dsn | str, send: Send, *, to: str, timeout_s: float) -> AsyncIterator[NotificationSender]:
    """Send requested notifications during a `with` block, in a separate task."""
    sender = NotificationSender(dsn, send, of=f"gateway notifications {to}", timeout_s=timeout_s)
    try:
        async with upkeep(f"notifications to {to}", sender.turn):
            yield sender
    finally:
        await sender.close()
