"""What takes part in a benchmark: something that is given timers and fires them, whoever made it."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psutil

POLL_S = 1.0  # seldom, for to look is work too
STALLED_S = 20.0


class Absent(Exception):
    """It can't take part here; the message says why."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Timers to be fired: so many, the first due at a moment, the next ones so much later each (0: all at once)."""

    count: int
    at: datetime
    every_s: float = 0.0

    @classmethod
    def overdue(cls, count: int) -> "Batch":
        """Make timers that were due a tenth of a millisecond after each other, up to now."""
        return cls(count, datetime.now(UTC) - timedelta(seconds=count / 10_000), 0.0001)

    @classmethod
    def paced(cls, per_s: int, seconds: float, *, in_s: float) -> "Batch":
        """Make timers that fall due evenly, from the next whole second after so many on."""
        at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=in_s + 1)
        return cls(round(per_s * seconds), at, 1 / per_s)

    async def is_due(self) -> None:
        """Wait until the first is due."""
        await asyncio.sleep(max(0.0, self.begin_s - time.time()))

    async def is_over(self) -> None:
        """Wait until the last is due."""
        await asyncio.sleep(max(0.0, self.end_s - time.time()))

    @property
    def begin_s(self) -> float:
        """Say when the first is due, in seconds since 1970."""
        return self.at.timestamp()

    @property
    def end_s(self) -> float:
        """Say when the last is due."""
        return self.begin_s + (self.count - 1) * self.every_s


class Firing(NamedTuple):
    """When a timer was due, and when it fired: seconds since 1970."""

    due_s: float
    fired_s: float


class Contender(ABC):
    """Fire timers of one database by processes of one's own.

    `drained` is how many overdue timers it is given: enough for some seconds of work. `pending_most` is how many are
    worth waiting for until they are in its table.
    """

    name: str
    version: str
    settings: str
    drained = 300_000
    pending_most = 10_000_000

    def __init__(self) -> None:
        self.dsn = ""

    async def open(self, dsn: str) -> None:
        """Make oneself at home in an empty database.

        errors:  Absent  it is not installed here
        """
        self.dsn = dsn

    @abstractmethod
    async def put(self, batch: Batch) -> None:
        """Put timers in, by the quickest way there is, all of them at once if they are overdue."""

    @abstractmethod
    async def start(self) -> None:
        """Start what fires, and wait until it is ready."""

    @abstractmethod
    async def stop(self) -> None:
        """End what was started; a second call does nothing."""

    async def close(self) -> None:
        """Stop, and leave nothing behind but the database."""
        await self.stop()

    @abstractmethod
    async def count(self) -> int:
        """Count what has fired since the database was opened."""

    @abstractmethod
    async def firings(self) -> Sequence[Firing]:
        """Tell what has fired since the database was opened, in no order."""

    @abstractmethod
    def processes(self) -> list[psutil.Process]:
        """List the processes that fire, one for each shard or worker."""

    async def until_fired(self, count: int, *, within_s: float, stalled_s: float = STALLED_S) -> bool:
        """Wait until so many have fired since the database was opened; False if it stands still, or takes too long."""
        deadline, moved_at, before = time.monotonic() + within_s, time.monotonic(), -1
        while (now := await self.count()) < count:
            if now > before:
                moved_at, before = time.monotonic(), now
            if time.monotonic() > min(deadline, moved_at + stalled_s):
                return False
            await asyncio.sleep(POLL_S)
        return True


def among(firings: Sequence[Firing], batch: Batch) -> list[Firing]:
    """Take out those of a batch, by due date."""
    return sorted(it for it in firings if batch.begin_s - 1e-4 <= it.due_s <= batch.end_s + 1e-4)
