"""What is measured in the tables: load that is to come and that is late, who serves, what holds Postgres up."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sql.lookback import Lately, Round, arguments
from sql.session import Session

# Before the earliest due date there can be, and later than all but paused timers: edges are counted from now.
EVER = timedelta(days=-3_500 * 365)
# Readings go past none that is overdue; each slot is read from its oldest row within a minute.
ROUND_S, LATELY_S, LONG_S = 60.0, 10.0, 1.0


@dataclass(frozen=True, slots=True)
class DueCounts:
    """How many timers are due between each two edges; estimated from a sample of the slots when they are many.

    units:   oldest_overdue_s for how long the first that was counted is overdue; 0 if it isn't
    """

    timers: Sequence[int]
    estimated: bool
    oldest_overdue_s: float


@dataclass(frozen=True, slots=True)
class ClusterMeasures:
    """The cluster in numbers, as Postgres knows it: true even when every shard is dead."""

    shards_wanted: int
    shards_min: int | None
    shards_max: int | None
    target_per_s: int
    ramp_per_s: int | None
    leader_alive: bool
    shards_alive: int
    holders_on_hold: int
    slots_assigned: int
    paused: int
    oldest_overdue_s: float
    scheduled: int
    log_records: int
    canceled: int
    rescheduled: int
    pauses: int
    resumed: int
    oldest_transaction_s: float
    oldest_snapshot_s: float
    wal_bytes: int
    log_partitions_ahead: int
    schema_version: int


@dataclass(frozen=True, slots=True)
class TableMeasures:
    """One table in numbers: rows by Postgres's own statistics, bytes with its indexes."""

    table_name: str
    live_rows: int
    dead_rows: int
    bytes: int


def readings_round() -> Round:
    """Begin the rounds of one who reads again and again what is overdue."""
    return Round(ROUND_S, LATELY_S, LONG_S)


async def count_due(
    session: Session, edges: Sequence[timedelta], *, lately: Lately | None = None, now: datetime | None = None
) -> DueCounts:
    """Count the pending timers between each two edges, which are counted from now.

    shape:   one number fewer than edges; exact up to about 170,000 timers in all
    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/count_due.sql
    """
    rows = await session.rows("count_due", edges, now, *arguments(lately))
    return DueCounts(
        [row["timers"] for row in rows],
        estimated=any(row["estimated"] for row in rows),
        oldest_overdue_s=max(0.0, *(row["oldest_s"] or 0.0 for row in rows)),
    )


async def measure_cluster(session: Session, lately: Lately | None = None) -> ClusterMeasures:
    """Measure the cluster.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/measure_cluster.sql
    """
    row = await session.row("measure_cluster", *arguments(lately))
    assert row is not None, "the coordination row is written by a migration"
    return ClusterMeasures(*row)


async def measure_tables(session: Session) -> list[TableMeasures]:
    """Measure each of our tables.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/measure_tables.sql
    """
    return [TableMeasures(*row) for row in await session.rows("measure_tables")]
