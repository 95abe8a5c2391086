"""Measure timers, the cluster's processes, transactions that delay vacuum, the Postgres server and its tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.claims.scan_window import RotatingScan, ScanWindow, values_of
from shardclock_server.sql.session import Session

# An edge (a time relative to now) that is before the earliest possible due date.
EVER = timedelta(days=-3_500 * 365)
# Once a minute, a slot is read from its oldest row on. All other reads of the slot begin 10 s before the oldest known
# overdue timer.
FULL_SCAN_S, RECENT_S, SLOW_S = 60.0, 10.0, 1.0


@dataclass(frozen=True, slots=True)
class DueCounts:
    """The number of timers between each pair of edges; for many timers, an estimate from a sample of slots.

    units:   oldest_overdue_s: the time since the oldest counted timer became due; 0 if no timer is overdue
    """

    timers: Sequence[int]
    estimated: bool
    oldest_overdue_s: float


@dataclass(frozen=True, slots=True)
class ClusterMeasures:
    """The measurements of the cluster.

    The measurements come only from Postgres, so they are correct even if all shards are dead.

    units:   oldest_overdue_s: the delay of the oldest overdue timer, since its due date or since a client's later
             request; oldest_due_s: the time since the due date of the oldest overdue timer
    """

    shards_wanted: int
    shards_min: int | None
    shards_max: int | None
    target_per_s: int
    ramp_per_s: int | None
    leader_alive: bool
    shards_alive: int
    holders_on_hold: int
    is_held: bool
    slots_assigned: int
    workers_wanted: int
    workers_alive: int
    paused: int
    oldest_overdue_s: float
    oldest_due_s: float
    scheduled: int
    log_records: int
    canceled: int
    rescheduled: int
    pauses: int
    resumed: int
    oldest_log_writer_s: float
    oldest_snapshot_s: float
    wal_bytes: int
    log_partitions_ahead: int
    schema_version: int


@dataclass(frozen=True, slots=True)
class ServerMeasures:
    """The server's use of limited resources.

    `wal_kept_bytes` is None if the role lacks the right to read it.
    """

    connections: int
    connections_max: int
    replica_lag_bytes: int | None
    slots_inactive: int
    wal_expected_bytes: int
    wal_kept_bytes: int | None


@dataclass(frozen=True, slots=True)
class TableMeasures:
    """The size of one table: the rows from Postgres's statistics, and the bytes with all indexes."""

    table_name: str
    live_rows: int
    dead_rows: int
    bytes: int


def readings_scan() -> RotatingScan:
    """Create a rotating scan, for a caller that counts the overdue timers repeatedly."""
    return RotatingScan(FULL_SCAN_S, RECENT_S, SLOW_S)


async def count_due(
    session: Session, edges: Sequence[timedelta], *, window: ScanWindow | None = None, now: datetime | None = None
) -> DueCounts:
    """Count the pending timers that are due between each pair of consecutive edges; an edge is a time relative to now.

    shape:   one count for each pair of edges; exact up to about 170,000 timers in total
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/count_due.sql
    """
    rows = await session.rows("count_due", edges=edges, now=now, **values_of(window))
    return DueCounts(
        [row["timers"] for row in rows],
        estimated=any(row["estimated"] for row in rows),
        oldest_overdue_s=max(0.0, *(row["oldest_s"] or 0.0 for row in rows)),
    )


async def measure_cluster(session: Session, window: ScanWindow | None = None) -> ClusterMeasures:
    """Measure the cluster.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/measure_cluster.sql
    """
    row = await session.row("measure_cluster", **values_of(window))
    assert row is not None, "the coordination row is written by a migration"
    return ClusterMeasures(*row)


async def measure_server(session: Session) -> ServerMeasures:
    """Measure the server.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/measure_server.sql, sql/metrics/measure_wal.sql
    """
    row = await session.row("measure_server")
    assert row is not None, "it reads no table"
    seen = dict(row)
    wal = await session.row("measure_wal") if seen.pop("lists_wal") else None
    return ServerMeasures(**seen, wal_kept_bytes=wal["kept_bytes"] if wal else None)


async def measure_tables(session: Session) -> list[TableMeasures]:
    """Measure each table of the schema.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/measure_tables.sql
    """
    return [TableMeasures(*row) for row in await session.rows("measure_tables")]
