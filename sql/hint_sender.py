"""Hints to those who wait that there is something new: soon enough to be useful, seldom enough to cost little."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import QUEUE_PLANS, UNSYNCED, Session

# The pause between two hints is eight times what one takes, within these bounds: hints then use a ninth of one
# connection. If one takes long, the pause is as long, and they use half.
GAP_S, SHARE, GAP_MAX_S = 0.004, 8.0, 0.02
# After a hint about at least `MANY` rows, the others are busy and come back by themselves: the next hint can wait.
MANY, GAP_OF_MANY_S, GAP_OF_MANY_MAX_S = 100, 0.05, 0.1
NOBODY_S = 1.0  # the pause when there is nobody to hear it

Send = Callable[[Session], Awaitable[bool]]


class HintSender:
    """Send hints on a connection of its own, opened with the first hint: nobody else waits for a hint to be sent."""

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
        """Ask for a hint that `new` rows are there; many calls make one hint."""
        if new:
            self._new += new
            self._wanted.set()

    async def turn(self) -> float:
        """Wait until a hint is wanted, and send it.

        units:   returns the seconds to wait before the next hint
        errors:  StoreUnavailable  the hint is lost: those who wait find the rows at their next poll
        """
        await self._wanted.wait()
        self._wanted.clear()
        if not self._new:  # woken by `wake`, to end
            return 0.0
        new, self._new = self._new, 0
        began_s = time.monotonic()
        heard = await self._send(self._session)
        return gap_s(time.monotonic() - began_s, new, heard=heard)

    def wake(self) -> None:
        """End the wait of a turn."""
        self._wanted.set()

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()


def gap_s(took_s: float, new: int, *, heard: bool) -> float:
    """Return the pause after a hint. It took `took_s`, and told of `new` rows; somebody `heard` it, or nobody did."""
    if not heard:
        return NOBODY_S
    least_s, most_s = (GAP_OF_MANY_S, GAP_OF_MANY_MAX_S) if new >= MANY else (GAP_S, GAP_MAX_S)
    return min(max(took_s * SHARE, least_s), max(most_s, took_s))
