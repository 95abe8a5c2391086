"""Read the cluster's state from Postgres."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.claims.claim import RAMP_AFTER_S
from shardclock_server.sql.metrics.measures import EVER, RECENT_S, DueCounts, count_due
from shardclock_server.sql.metrics.past import LATE_S
from shardclock_server.sql.session import Session

# The timers between the first two edges became due during an outage; the timers between the last two edges are also
# overdue.
OVERDUE_EDGES = (EVER, timedelta(seconds=-RAMP_AFTER_S), timedelta(0))
FAILING_ENDPOINTS_MAX = 100  # the limit for all tenants together


@dataclass(frozen=True, slots=True)
class Status:
    """The cluster's state: pending and overdue timers, lags, and the leader.

    The lags are those of at most 1,000 firings among the last 10,000 log records. `fired_lately` and
    `lag_p99_lately_ms` count only the firings of the last minute.

    For a million timers or more, `pending` is the estimate of the last vacuum. `overdue` and `left_by_outage` are exact
    up to about 170,000 overdue timers; above that they are estimates from a sample of the slots.
    """

    pending: int
    pending_estimated: bool
    paused: int
    overdue: int
    overdue_estimated: bool
    oldest_overdue_s: float
    left_by_outage: int
    ramp_per_s: int | None
    fired: int
    lag_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    last_fired_s: float | None
    fired_lately: int
    lag_p99_lately_ms: float | None
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
        """Estimate the time until all timers of an outage have fired; None if `ramp_per_s` is None or 0."""
        return self.left_by_outage / self.ramp_per_s if self.ramp_per_s else None


async def read_status(session: Session) -> Status:
    """Read the cluster's state.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/read_status.sql, sql/metrics/count_due.sql
    """
    began_s = time.monotonic()
    due = await count_due(session, OVERDUE_EDGES)
    row = await session.row("read_status", recent=recent_of(due, took_s=time.monotonic() - began_s))
    assert row is not None
    return Status(**dict(row), overdue=sum(due.timers), overdue_estimated=due.estimated, left_by_outage=due.timers[0])


@dataclass(frozen=True, slots=True)
class OverdueTenant:
    """A tenant with overdue timers, the number of its counted timers, and the due date of the oldest counted timer."""

    tenant_id: str
    timers: int
    oldest: datetime


async def find_overdue_tenants(session: Session, *, limit: int) -> list[OverdueTenant]:
    """Find the tenants with the most overdue timers among the oldest 3 overdue timers of each slot.

    shape:   at most `limit`, the tenant with the most timers first; a timer is overdue if it became due more than a
             second ago
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/find_overdue_tenants.sql
    """
    late = timedelta(seconds=LATE_S)
    return [OverdueTenant(*row) for row in await session.rows("find_overdue_tenants", late=late, limit=limit)]


@dataclass(frozen=True, slots=True)
class TroubledTenant:
    """A tenant with dead letters, counted up to 1,000, or with failing endpoints.

    `failing_since` is the time of the firing or the redrive of the oldest failing delivery; None: no endpoint fails.
    """

    tenant_id: str
    failing_endpoints: int
    failing_since: datetime | None
    dead_letters: int


async def find_troubled_tenants(session: Session, *, tenant_id: str, limit: int) -> list[TroubledTenant]:
    """Find the tenants that have dead letters or failing endpoints, except the tenant `tenant_id`.

    shape:   at most `limit`, by name; at most 100 failing endpoints of all tenants are read
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/find_troubled_tenants.sql
    """
    asked = {"tenant_id": tenant_id, "limit": limit, "endpoints_max": FAILING_ENDPOINTS_MAX}
    return [TroubledTenant(*row) for row in await session.rows("find_troubled_tenants", **asked)]


def recent_of(due: DueCounts, *, took_s: float) -> timedelta | None:
    """Return how far back to search for the oldest overdue timer.

    None if the count of overdue timers is an estimate, because the sample may not contain the oldest timer.
    """
    return None if due.estimated else timedelta(seconds=due.oldest_overdue_s + took_s + RECENT_S)


async def read_clock(session: Session) -> datetime:
    """Read Postgres's clock.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/read_clock.sql
    """
    row = await session.row("read_clock")
    assert row is not None
    at: datetime = row["server_time"]
    return at
