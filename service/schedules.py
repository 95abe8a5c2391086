"""Find schedules, each with its last firings."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.sql.clients.firings import PastFiring, read_firings
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.session import Session

SCHEDULES_MAX = 50  # one page has at most this many schedules, because it reads up to 100 records for each schedule


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule: its next occurrence, and its last firings, the newest first."""

    timer: TimerState
    firings: Sequence[PastFiring]

    @property
    def last(self) -> PastFiring | None:
        """The last occurrence that fired; None: the log has no such occurrence."""
        return next((it for it in self.firings if it.intent == "TRIGGERED"), None)

    @property
    def skipped(self) -> int:
        """The number of skipped occurrences in the last records."""
        return sum(it.skipped for it in self.firings)


async def with_firings(session: Session, tenant_id: str, timers: Sequence[TimerState]) -> list[ScheduleState]:
    """Read the last firings of a tenant's schedules.

    shape:   one schedule for each timer, in the same order
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await read_firings(session, tenant_id, [it.name for it in timers if it.name is not None])
    return [ScheduleState(it, found.get(it.name or "", [])) for it in timers]
