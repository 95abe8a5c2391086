"""The interface of a contender in a benchmark: a system that schedules and fires timers."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psutil

POLL_S = 1.0  # the interval is long, because each query takes processor time
STALLED_S = 20.0


class Absent(Exception):
    """A contender can't run on this machine; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Batch:
    """`count` timers; the first timer is due at `at`, and each further timer `every_s` after the timer before it."""

    count: int
    at: datetime
    every_s: float = 0.0

    @classmethod
    def overdue(cls, count: int) -> "Batch":
        """Create a batch of overdue timers; their due dates are 0.1 ms apart, and the last due date is now."""
        return cls(count, datetime.now(UTC) - timedelta(seconds=count / 10_000), 0.0001)

    @classmethod
    def paced(cls, per_s: int, seconds: float, *, in_s: float) -> "Batch":
        """Create a batch of timers with even intervals; the first is due `in_s` seconds after the next whole second."""
        at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=in_s + 1)
        return cls(round(per_s * seconds), at, 1 / per_s)

    async def is_due(self) -> None:
        """Wait until the first timer is due."""
        await asyncio.sleep(max(0.0, self.begin_s - time.time()))

    async def is_over(self) -> None:
        """Wait until the last timer is due."""
        await asyncio.sleep(max(0.0, self.end_s - time.time()))

    @property
    def begin_s(self) -> float:
        """Return the due date of the first timer, in seconds since 1970."""
        return self.at.timestamp()

    @property
    def end_s(self) -> float:
        """Return the due date of the last timer, in seconds since 1970."""
        return self.begin_s + (self.count - 1) * self.every_s


class Firing(NamedTuple):
    """The due date and the firing of a timer, in seconds since 1970."""

    due_s: float
    fired_s: float


class Contender(ABC):
    """Fire the timers of one database, with separate processes.

    `drained` is the number of overdue timers in a backlog that takes some seconds to drain. `pending_most` is the
    largest number of pending timers: a larger table would take too long to fill. `left` is a query for the number of
    uncompleted timers in the database; "" if the contender calls no handlers.
    """

    name: str
    version: str
    settings: str
    drained = 300_000
    pending_most = 10_000_000
    left = ""

    def __init__(self) -> None:
        self.dsn = ""

    async def open(self, dsn: str) -> None:
        """Set up an empty database.

        errors:  Absent  the contender is not installed here
        """
        self.dsn = dsn

    @abstractmethod
    async def put(self, batch: Batch) -> None:
        """Schedule timers with the fastest method; if they are overdue, schedule them in one transaction."""

    @abstractmethod
    async def start(self) -> None:
        """Start the processes that fire timers, and wait until they are ready."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the started processes; a second call does nothing."""

    async def close(self) -> None:
        """Stop, and remove all files and processes; the caller drops the database."""
        await self.stop()

    @abstractmethod
    async def count(self) -> int:
        """Count the timers that have fired since `open`."""

    @abstractmethod
    async def firings(self) -> Sequence[Firing]:
        """Return the firings since `open`, in any order."""

    @abstractmethod
    def processes(self) -> list[psutil.Process]:
        """List the processes that fire timers, one for each shard or worker."""

    async def until_fired(self, count: int, *, within_s: float, stalled_s: float = STALLED_S) -> bool:
        """Wait until `count` timers have fired since `open`; return False if firing stalls or takes too long."""
        deadline, moved_at, before = time.monotonic() + within_s, time.monotonic(), -1
        while (now := await self.count()) < count:
            if now > before:
                moved_at, before = time.monotonic(), now
            if time.monotonic() > min(deadline, moved_at + stalled_s):
                return False
            await asyncio.sleep(POLL_S)
        return True


def among(firings: Sequence[Firing], batch: Batch) -> list[Firing]:
    """Return the firings of a batch, selected by their due dates."""
    return sorted(it for it in firings if batch.begin_s - 1e-4 <= it.due_s <= batch.end_s + 1e-4)
