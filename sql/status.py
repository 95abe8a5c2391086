"""The cluster's state, as Postgres knows it."""

from dataclasses import dataclass
from datetime import datetime

from sql.session import Session


@dataclass(frozen=True, slots=True)
class Status:
    """What is pending, what is late, and who leads; lags are those of the last thousand records."""

    pending: int
    pending_estimated: bool
    overdue: int
    oldest_overdue_s: float
    fired: int
    lag_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    shards_wanted: int
    term: int
    leader: int | None
    leader_alive: bool
    server_time: datetime


async def read_status(session: Session) -> Status:
    """Read the cluster's state.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/read_status.sql
    """
    row = await session.row("read_status")
    assert row is not None
    return Status(**dict(row))
