"""Measure processes: engines, waiting signals, and incidents."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

COUNTED_MAX = 10_000  # each count stops at this number, so that a measurement stays fast


@dataclass(frozen=True, slots=True)
class ProcessMeasures:
    """The measurements of engines, of signals that no engine has processed, and of open incidents.

    units:   oldest_signal_s: the time since the oldest waiting signal became due; 0: no signal waits
    """

    engines_wanted: int
    engines_alive: int
    signals_waiting: int
    oldest_signal_s: float
    incidents: int


async def measure_processes(
    session: Session, *, most: int = COUNTED_MAX, now: datetime | None = None
) -> ProcessMeasures:
    """Measure engines, waiting signals and incidents.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/measure_processes.sql
    """
    row = await session.row("measure_processes", most=most, now=now)
    assert row is not None, "the row of the engines' scale is written by a migration"
    return ProcessMeasures(*row)
