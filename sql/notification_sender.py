"""Send notifications of new rows; pauses between the notifications limit their cost."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import QUEUE_PLANS, UNSYNCED, Session

# The pause between two notifications is eight times as long as a notification takes, so that notifications use a ninth
# of one connection's time. The pause has a lower and an upper bound. If a notification takes longer than the upper
# bound, the pause is as long as the notification, so that notifications use at most half of the connection's time.
GAP_S, SHARE, GAP_MAX_S = 0.004, 8.0, 0.02
# After a notification of at least `MANY` rows, the receivers are busy and poll again by themselves: the next
# notification can wait.
MANY, GAP_OF_MANY_S, GAP_OF_MANY_MAX_S = 100, 0.05, 0.1
UNHEARD_S = 1.0  # the pause after a notification for which no process listens

Send = Callable[[Session], Awaitable[bool]]


class NotificationSender:
    """Send notifications on a separate connection, so that no statement waits for a notification."""

    def __init__(self, dsn: Dsn | str, send: Send, *, of: str, timeout_s: float) -> None:
        self._send = send
        self._session = Session(
            dsn,
            application=f"shardclock {of}",
            timeout_s=timeout_s,
            plans=QUEUE_PLANS | UNSYNCED,
        )
        self._wanted = asyncio.Event()
        self._new = 0

    def want(self, new: int) -> None:
        """Request a notification of `new` rows; many requests are combined into one notification."""
        if new:
            self._new += new
            self._wanted.set()

    async def turn(self) -> float:
        """Wait until a notification is requested, and send it.

        units:   returns the seconds to wait before the next notification
        errors:  StoreUnavailable  the notification is lost: the receivers find the rows at their next poll
        """
        await self._wanted.wait()
        self._wanted.clear()
        if not self._new:  # `wake` ended the wait
            return 0.0
        new, self._new = self._new, 0
        began_s = time.monotonic()
        heard = await self._send(self._session)
        return gap_s(time.monotonic() - began_s, new, heard=heard)

    def wake(self) -> None:
        """End the wait of the send loop."""
        self._wanted.set()

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()


def gap_s(took_s: float, new: int, *, heard: bool) -> float:
    """Return the pause after a notification of `new` rows that took `took_s`; `heard` means that a process listens."""
    if not heard:
        return UNHEARD_S
    least_s, most_s = (GAP_OF_MANY_S, GAP_OF_MANY_MAX_S) if new >= MANY else (GAP_S, GAP_MAX_S)
    return min(max(took_s * SHARE, least_s), max(most_s, took_s))
