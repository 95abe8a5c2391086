"""Read the exporter's values from Postgres; they are correct even if all shards are dead."""

import time
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import structlog

from shardclock_server.metrics.families import GROUPS_MAX, TABLE
from shardclock_server.metrics.family import TARGETS_MAX
from shardclock_server.metrics.jobs import samples_of_jobs
from shardclock_server.metrics.report import Sample
from shardclock_server.sql.claims.scan_window import ScanWindow
from shardclock_server.sql.log.groups import Group, list_groups
from shardclock_server.sql.metrics.deliveries import Waiting, count_dead_letters, measure_deliveries
from shardclock_server.sql.metrics.forecast import Forecast, read_forecast
from shardclock_server.sql.metrics.jobs import JobsMeasured, measure_jobs
from shardclock_server.sql.metrics.measures import (
    EVER,
    ClusterMeasures,
    DueCounts,
    ServerMeasures,
    TableMeasures,
    count_due,
    measure_cluster,
    measure_server,
    measure_tables,
)
from shardclock_server.sql.metrics.processes import ProcessMeasures, measure_processes
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

# The groups of overdue timers by age, the oldest first. Each group ends where the next group begins; the last ends now.
AGES = ("over_10m", "under_10m", "under_1m", "under_10s", "under_1s")
AGE_EDGES = (EVER, *(timedelta(seconds=-age_s) for age_s in (600, 60, 10, 1, 0)))
OUTAGE_AGES = ("over_10m", "under_10m", "under_1m")  # the groups of timers that are overdue by more than 10 s
ALL_TIME = (EVER, timedelta(days=9_000 * 365))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tables:
    """The result of one reading of the tables."""

    cluster: ClusterMeasures
    overdue: DueCounts
    pending: DueCounts
    forecast: Forecast
    server: ServerMeasures
    waiting: list[Waiting]
    dead_letters: Mapping[str, int]
    jobs: JobsMeasured | None
    processes: ProcessMeasures | None
    groups: list[Group]
    sizes: list[TableMeasures]
    readings_missing: int
    took_s: float


async def read_tables(session: Session, window: ScanWindow | None) -> Tables:
    """Read all values once; search overdue timers only in the window.

    errors:  StoreUnavailable  no answer before the timeout
    """
    began_s = time.monotonic()
    independent = _IndependentReadings()
    return Tables(
        cluster=await measure_cluster(session, window),
        overdue=await count_due(session, AGE_EDGES, window=window),
        pending=await count_due(session, ALL_TIME, window=window),
        forecast=await read_forecast(session),
        server=await measure_server(session),
        waiting=await independent.or_default(measure_deliveries(session, TARGETS_MAX), "the deliveries", []),
        dead_letters=await independent.or_default(count_dead_letters(session, TARGETS_MAX), "the dead letters", {}),
        jobs=await independent.or_default(measure_jobs(session), "the jobs", None),
        processes=await independent.or_default(measure_processes(session), "the processes", None),
        groups=await independent.or_default(list_groups(session, GROUPS_MAX), "the consumer groups", []),
        sizes=await measure_tables(session),
        readings_missing=independent.missing,
        took_s=time.monotonic() - began_s,
    )


class _IndependentReadings:
    """Run the queries of one reading; a failed query does not stop the others, and `missing` counts it."""

    def __init__(self) -> None:
        self.missing = 0

    async def or_default(self, reading: Awaitable[T], name: str, default: T) -> T:
        """Wait for the result of a query; if it fails, return `default`, so that the other queries continue."""
        try:
            return await reading
        except (StatementRefused, StoreUnavailable) as error:
            self.missing += 1
            structlog.get_logger().warning("some figures can't be read", of=name, error=" ".join(str(error).split()))
            return default


def samples_of(tables: Tables | None) -> Iterator[Sample]:
    """List the samples of a reading; without a reading, only `store_up` with the value 0."""
    yield Sample("store_up", (), 0.0 if tables is None else 1.0)
    if tables is None:
        return
    yield Sample("store_read_seconds", (), tables.took_s)
    yield Sample("store_readings_missing", (), tables.readings_missing)
    yield from _of_timers(tables)
    yield from _of_cluster(tables.cluster)
    yield from _of_forecast(tables.forecast, tables.cluster)
    yield from _of_server(tables.server)
    yield from _of_deliveries(tables)
    if tables.jobs is not None:
        yield from samples_of_jobs(tables.jobs)
    if tables.processes is not None:
        yield from _of_processes(tables.processes)
    yield from _of_groups(tables.groups)
    for size in tables.sizes:
        if size.table_name in TABLE.values:
            yield Sample("table_rows", (size.table_name,), size.live_rows)
            yield Sample("table_dead_rows", (size.table_name,), size.dead_rows)
            yield Sample("table_bytes", (size.table_name,), size.bytes)


def _of_processes(measured: ProcessMeasures) -> Iterator[Sample]:
    yield Sample("engines_wanted", (), measured.engines_wanted)
    yield Sample("engines_alive", (), measured.engines_alive)
    yield Sample("instance_signals_waiting", (), measured.signals_waiting)
    yield Sample("oldest_waiting_signal_seconds", (), measured.oldest_signal_s)
    yield Sample("incidents_open", (), measured.incidents)


def _of_timers(tables: Tables) -> Iterator[Sample]:
    overdue = dict(zip(AGES, tables.overdue.timers, strict=True))
    yield Sample("pending_timers", (), sum(tables.pending.timers))
    yield Sample("overdue_timers", (), sum(overdue.values()))
    yield Sample("left_by_outage_timers", (), sum(overdue[age] for age in OUTAGE_AGES))
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
        "operators_hold": cluster.is_held,
        "shards_min": cluster.shards_min,
        "shards_max": cluster.shards_max,
        "slots_assigned": cluster.slots_assigned,
        "workers_wanted": cluster.workers_wanted,
        "workers_alive": cluster.workers_alive,
        "leader_alive": cluster.leader_alive,
        "timers_scheduled": cluster.scheduled,
        "log_records": cluster.log_records,
        "timers_canceled": cluster.canceled,
        "timers_rescheduled": cluster.rescheduled,
        "timers_paused": cluster.pauses,
        "timers_resumed": cluster.resumed,
        "oldest_log_writer_seconds": cluster.oldest_log_writer_s,
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


def _of_server(server: ServerMeasures) -> Iterator[Sample]:
    named: dict[str, float | None] = {
        "connections": server.connections,
        "connections_max": server.connections_max,
        "replica_lag_bytes": server.replica_lag_bytes,
        "replication_slots_inactive": server.slots_inactive,
        "wal_kept_bytes": server.wal_kept_bytes,
        "wal_expected_bytes": server.wal_expected_bytes,
    }
    yield from (Sample(name, (), value) for name, value in named.items() if value is not None)


def _of_groups(groups: list[Group]) -> Iterator[Sample]:
    """List the samples of the groups with the largest lag."""
    for group in sorted(groups, key=lambda group: -group.lag_s)[:GROUPS_MAX]:
        label = (group.group_name,)
        yield Sample("consumer_lag_records", label, group.lag_records)
        yield Sample("consumer_lag_seconds", label, group.lag_s)
        yield Sample("consumer_failures", label, group.failures)
        yield Sample("consumer_records_aside", label, group.set_aside)


def _of_deliveries(tables: Tables) -> Iterator[Sample]:
    for waiting in tables.waiting:
        yield Sample("deliveries_waiting", (waiting.target_name,), waiting.deliveries)
        yield Sample("oldest_waiting_delivery_seconds", (waiting.target_name,), waiting.oldest_s)
    for target_name, letters in tables.dead_letters.items():
        yield Sample("dead_letters", (target_name,), letters)
