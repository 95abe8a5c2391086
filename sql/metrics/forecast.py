"""Forecast the load of the next 15 minutes from due dates, so that operators see a spike before it comes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.metrics.measures import count_due
from shardclock_server.sql.session import Session

STEP_S = 10
STEPS_A_MINUTE = 60 // STEP_S
MINUTES = 15
EDGES = tuple(timedelta(seconds=second) for second in range(0, MINUTES * 60 + 1, STEP_S))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The number of pending timers that are due in each ten seconds of the next 15 minutes.

    Each number is a lower bound: only the next occurrence of a schedule counts, and clients may schedule more timers.
    """

    steps: Sequence[int]
    estimated: bool

    @property
    def minutes(self) -> list[int]:
        """Count the timers of each coming minute."""
        return [sum(self.steps[i : i + STEPS_A_MINUTE]) for i in range(0, len(self.steps), STEPS_A_MINUTE)]

    @property
    def peak_per_s(self) -> float:
        """Return the rate of the busiest ten seconds."""
        return self.peak_within(MINUTES * 60)

    def peak_within(self, seconds: float) -> float:
        """Return the rate of the busiest ten seconds that begin within `seconds` from now."""
        coming = [timers for number, timers in enumerate(self.steps) if number * STEP_S < seconds]
        return max(coming, default=0) / STEP_S


async def read_forecast(session: Session, *, now: datetime | None = None) -> Forecast:
    """Read the numbers of timers that are due in the next 15 minutes.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/count_due.sql
    """
    due = await count_due(session, EDGES, now=now)
    return Forecast(due.timers, due.estimated)
