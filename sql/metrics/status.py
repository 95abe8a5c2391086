"""Read the cluster's state from Postgres."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sql.claims.claim import RAMP_AFTER_S
from sql.session import Session


@dataclass(frozen=True, slots=True)
class Status:
    """Pending timers, overdue timers, and the leader; lags are those of the firings among the last thousand records."""

    pending: int
    pending_estimated: bool
    paused: int
    overdue: int
    oldest_overdue_s: float
    left_by_outage: int
    ramp_per_s: int | None
    fired: int
    lag_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    shards_wanted: int
    workers_wanted: int
    deliveries: int
    dead_letters: int
    term: int
    leader: int | None
    leader_alive: bool
    server_time: datetime

    @property
    def caught_up_in_s(self) -> float | None:
        """Estimate when the timers left by an outage will have fired; None if unknown: no ramp, or a ramp of 0."""
        return self.left_by_outage / self.ramp_per_s if self.ramp_per_s else None


async def read_status(session: Session) -> Status:
    """Read the cluster's state.

    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/read_status.sql
    """
    row = await session.row("read_status", ramp_after=timedelta(seconds=RAMP_AFTER_S))
    assert row is not None
    return Status(**dict(row))


async def read_clock(session: Session) -> datetime:
    """Read Postgres's clock.

    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/read_clock.sql
    """
    row = await session.row("read_clock")
    assert row is not None
    at: datetime = row["server_time"]
    return at
