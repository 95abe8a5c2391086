"""What the exporter reads in Postgres: true even when every shard is dead."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from metrics.families import LABELS
from metrics.report import Sample
from sql.forecast import Forecast, read_forecast
from sql.lookback import Lately
from sql.measures import EVER, ClusterMeasures, DueCounts, TableMeasures, count_due, measure_cluster, measure_tables
from sql.session import Session

# How late each stretch's timers are at most, the latest first; the last edge is now.
AGES = ("over_10m", "under_10m", "under_1m", "under_10s", "under_1s")
AGE_EDGES = (EVER, *(timedelta(seconds=-age_s) for age_s in (600, 60, 10, 1, 0)))
AGES_OF_OUTAGE = ("over_10m", "under_10m", "under_1m")  # overdue by more than 10 s
FROM_EVER_ON = (EVER, timedelta(days=9_000 * 365))


@dataclass(frozen=True, slots=True)
class Tables:
    """One reading of the tables."""

    cluster: ClusterMeasures
    overdue: DueCounts
    pending: DueCounts
    forecast: Forecast
    sizes: list[TableMeasures]
    took_s: float


async def read_tables(session: Session, lately: Lately | None) -> Tables:
    """Read everything once, what is overdue as far back as asked.

    errors:  StoreUnavailable  no answer in time
    """
    began_s = time.monotonic()
    return Tables(
        cluster=await measure_cluster(session, lately),
        overdue=await count_due(session, AGE_EDGES, lately=lately),
        pending=await count_due(session, FROM_EVER_ON, lately=lately),
        forecast=await read_forecast(session),
        sizes=await measure_tables(session),
        took_s=time.monotonic() - began_s,
    )


def samples_of(tables: Tables | None) -> Iterator[Sample]:
    """List what a reading says; of none, only that there is none."""
    yield Sample("store_up", (), 0.0 if tables is None else 1.0)
    if tables is None:
        return
    yield Sample("store_read_seconds", (), tables.took_s)
    yield from _of_timers(tables)
    yield from _of_cluster(tables.cluster)
    yield from _of_forecast(tables.forecast, tables.cluster)
    for size in tables.sizes:
        if size.table_name in LABELS["table"]:
            yield Sample("table_rows", (size.table_name,), size.live_rows)
            yield Sample("table_dead_rows", (size.table_name,), size.dead_rows)
            yield Sample("table_bytes", (size.table_name,), size.bytes)


def _of_timers(tables: Tables) -> Iterator[Sample]:
    overdue = dict(zip(AGES, tables.overdue.timers, strict=True))
    yield Sample("pending_timers", (), sum(tables.pending.timers))
    yield Sample("overdue_timers", (), sum(overdue.values()))
    yield Sample("left_by_outage_timers", (), sum(overdue[age] for age in AGES_OF_OUTAGE))
    for age, timers in overdue.items():
        yield Sample("overdue_timers_by_age", (age,), timers)


def _of_cluster(cluster: ClusterMeasures) -> Iterator[Sample]:
    named: dict[str, float | None] = {
        "paused_timers": cluster.paused,
        "oldest_overdue_seconds": cluster.oldest_overdue_s,
        "ramp_timers_per_second": cluster.ramp_per_s,
        "shards_wanted": cluster.shards_wanted,
        "shards_alive": cluster.shards_alive,
        "holders_on_hold": cluster.holders_on_hold,
        "shards_min": cluster.shards_min,
        "shards_max": cluster.shards_max,
        "slots_assigned": cluster.slots_assigned,
        "leader_alive": cluster.leader_alive,
        "timers_scheduled": cluster.scheduled,
        "log_records": cluster.log_records,
        "timers_canceled": cluster.canceled,
        "timers_rescheduled": cluster.rescheduled,
        "timers_paused": cluster.pauses,
        "timers_resumed": cluster.resumed,
        "oldest_transaction_seconds": cluster.oldest_transaction_s,
        "oldest_snapshot_seconds": cluster.oldest_snapshot_s,
        "wal_bytes": cluster.wal_bytes,
        "log_partitions_ahead": cluster.log_partitions_ahead,
        "schema_version": cluster.schema_version,
    }
    for name, value in named.items():
        if value is not None:
            yield Sample(name, (), value)


def _of_forecast(forecast: Forecast, cluster: ClusterMeasures) -> Iterator[Sample]:
    for number, timers in enumerate(forecast.minutes, start=1):
        yield Sample("forecast_timers", (f"{number:02}",), timers)
    yield Sample("forecast_peak_timers_per_second", (), forecast.peak_per_s)
    yield Sample("capacity_timers_per_second", (), cluster.shards_alive * cluster.target_per_s)
