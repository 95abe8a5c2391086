"""Measure the cost of a timer (processor, write-ahead log, disk, memory), to plan the size of a cluster."""

import asyncio
import os
from datetime import timedelta

import psutil

from benchmarks.bench import Bench
from benchmarks.processes import cpu_s, family_of, server_of
from benchmarks.rows import Figures, lags, pace, soon
from shardclock_server.sql.metrics.measures import measure_cluster, measure_tables
from shardclock_server.sql.session import Session

RATES = (1_000, 5_000, 10_000)
SECONDS = 20
SETTLE_S = 8.0


async def cost(bench: Bench) -> Figures:
    """Fire at three paces, and at each pace measure the cost of a timer in Postgres, in the shards, and on disk."""
    await bench.start()
    await asyncio.sleep(SETTLE_S)
    async with bench.session() as session:
        server = await server_of(session)
        figures: Figures = {str(rate): await _cost_at(session, server, rate) for rate in RATES}
        tables = {table.table_name: table for table in await measure_tables(session)}
    log = tables["command_log"]
    figures["log_bytes_per_record"] = round(log.bytes / (sum(RATES) * SECONDS))
    figures["shard_rss_mb"] = sorted(round(shard.memory_info().rss / 1e6) for shard in _shards())
    return figures


async def _cost_at(session: Session, server: psutil.Process, rate: int) -> Figures:
    at = await soon(session, 10)
    await pace(session, at, rate=rate, seconds=SECONDS)
    until = await soon(session, 0)
    await asyncio.sleep(max(0.0, (at - until).total_seconds() - 0.5))
    before = await measure_cluster(session)
    postgres_s, shards_s = cpu_s(family_of(server)), cpu_s(_shards())
    await asyncio.sleep(SECONDS)
    after = await measure_cluster(session)
    postgres_s, shards_s = cpu_s(family_of(server)) - postgres_s, cpu_s(_shards()) - shards_s
    fired = after.log_records - before.log_records
    lag = await lags(session, at, at + timedelta(seconds=SECONDS), rate * SECONDS)
    return {
        "postgres_us_per_timer": round(1e6 * postgres_s / fired),
        "shards_us_per_timer": round(1e6 * shards_s / fired),
        "wal_bytes_to_fire": round((after.wal_bytes - before.wal_bytes) / fired),
        "lag_ms": lag["lag_ms"],
    }


def _shards() -> list[psutil.Process]:
    return [child for child in psutil.Process(os.getpid()).children(recursive=True) if "ShardActor" in child.name()]
