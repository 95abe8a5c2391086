"""Wait for a page of the log, for a lease, or for the end of a run. Each wait polls Postgres itself."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.types import Receive

from shardclock_server.gateway.waits.wait import Wait, Waits

POLL_S = 0.1

T = TypeVar("T")


class LongPolls:
    """All long polls of one gateway."""

    def __init__(self) -> None:
        self._waits: Waits[None, Wait] = Waits()

    def stop(self) -> None:
        """End all waits, because the gateway stops."""
        self._waits.stop()

    async def find(self, read: Callable[[], Awaitable[T | None]], receive: Receive, *, within_s: float) -> T | None:
        """Call `read` at intervals until it returns a result, as `Wait.find` does."""
        with self._waits.one(None, Wait(receive, within_s=within_s)) as wait:
            return await wait.find(read, every_s=POLL_S)
