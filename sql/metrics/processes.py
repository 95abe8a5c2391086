"""What is measured of processes: who drives them, which signals wait, and which tokens have stopped."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

COUNTED_MAX = 10_000  # no count goes further: a reading must not take long


@dataclass(frozen=True, slots=True)
class ProcessMeasures:
    """Engines, signals that no engine has taken yet, and open incidents, in numbers.

    units:   oldest_signal_s: how long the oldest signal that waits has been due; 0 if there is none
    """

    engines_wanted: int
    engines_alive: int
    signals_waiting: int
    oldest_signal_s: float
    incidents: int


async def measure_processes(
    session: Session, *, most: int = COUNTED_MAX, now: datetime | None = None
) -> ProcessMeasures:
    """Measure what drives processes, and what waits for it.

    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/measure_processes.sql
    """
    row = await session.row("measure_processes", most=most, now=now)
    assert row is not None, "the row of the engines' scale is written by a migration"
    return ProcessMeasures(*row)
