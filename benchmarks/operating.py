"""Scenarios for operators: the cost of metrics, the cost of a forecast, and the effect of scaling."""

import asyncio
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median

import psutil

from benchmarks.bench import Bench
from benchmarks.processes import cpu_s, family_of, server_of
from benchmarks.rows import Figures, add_overdue, holder_of, lag_of, lags, pace, soon
from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.exporter import Exporter, ExporterConfig
from shardclock_server.shards.families import LAG_EDGES
from shardclock_server.shards.stats import LagHistograms
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.cluster.holders import SHARD, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import scale, set_policy
from shardclock_server.sql.metrics.forecast import read_forecast
from shardclock_server.sql.session import Session

BACKLOG = 300_000
BACKLOG_SCAN = Scan("own", 0, 4_200)
ROUNDS = 9
PENDING = 10_000_000
BASE_PER_S = 1_000
SPIKE_PER_S = 10_000
SPIKE_S = 15
TARGET_PER_S = 2_500


async def metrics_cost(bench: Bench) -> Figures:
    """Drain a backlog with and without the measurement of lags, while an exporter is scraped each second."""
    measured, unmeasured = [], []
    async with bench.session() as session, _scraped(bench):
        for _ in range(ROUNDS):
            unmeasured.append(await _drain(bench, session, measured=False))
            measured.append(await _drain(bench, session, measured=True))
    return {
        name: {"per_s": [round(BACKLOG / took_s) for took_s, _ in rounds], "cpu_us_per_timer": _cpu_us(rounds)}
        for name, rounds in (("measured", measured), ("unmeasured", unmeasured))
    } | {"ratio_of_median_cpu": round(_cpu_us(measured) / _cpu_us(unmeasured), 3)}


async def forecast_cost(bench: Bench) -> Figures:
    """Measure forecasts with ten million timers due in 15 minutes, and the effect of forecasts on claims."""
    async with bench.session() as session, bench.session() as other:
        async with session.connection(timeout_s=300) as connection:
            await connection.execute(
                "insert into shardclock.timers (due_date)"
                " select now() + interval '5 minutes' + n * interval '600 seconds' / $1::integer"
                " from generate_series(1, $1::integer) as n",
                PENDING,
            )
            await connection.execute("vacuum analyze shardclock.timers")
        holder = await holder_of(session, 0, 1)
        forecasts = [await _timed(read_forecast(session)) for _ in range(15)]
        alone = [await _claim_s(session, holder) for _ in range(50)]
        looking = asyncio.create_task(_look_on(other))
        beside = [await _claim_s(session, holder) for _ in range(50)]
        looking.cancel()
        await asyncio.wait([looking])
    return {
        "forecast_ms": [round(1000 * s, 1) for s in sorted(forecasts)],
        "claim_ms_alone": round(1000 * median(alone), 2),
        "claim_ms_beside_forecasts": round(1000 * median(beside), 2),
    }


async def scale_up(bench: Bench) -> Figures:
    """Scale from 2 to 8 shards while 10,000 timers a second fire."""
    await bench.start()
    await asyncio.sleep(8)
    async with bench.session() as session:
        at = await soon(session, 8)
        await pace(session, at, rate=10_000, seconds=20)
        await asyncio.sleep(10)
        began_s = time.monotonic()
        await scale(session, SHARD, 8)
        while sum(holder.part_count == 8 for holder in await list_holders(session)) < 8:
            await asyncio.sleep(0.1)
        took_s = time.monotonic() - began_s
        figures = await lags(session, at, at + timedelta(seconds=20), 200_000)
    return {"scaled_in_s": round(took_s, 1), **figures}


async def spike(bench: Bench) -> Figures:
    """Schedule a usual load for a minute, then ten times this load for 15 s.

    Fire these timers twice: first without a forecast policy, then with one.
    """
    await bench.start()
    async with bench.session() as session:
        await scale(session, SHARD, 1)
        without = await _meet_spike(session)
        await set_policy(session, SHARD, wanted_min=1, wanted_max=4, target_per_s=TARGET_PER_S)
        with_forecast = await _meet_spike(session)
    return {
        "without_forecast": without,
        "with_forecast": with_forecast,
        "p99_ms": [lag_of(without, 1), lag_of(with_forecast, 1)],
    }


async def _meet_spike(session: Session) -> Figures:
    at = await soon(session, 62)
    await pace(session, at - timedelta(seconds=60), rate=BASE_PER_S, seconds=60)
    await pace(session, at, rate=SPIKE_PER_S, seconds=SPIKE_S)
    await asyncio.sleep(70)
    shards = sum(holder.part is not None for holder in await list_holders(session))
    figures = await lags(session, at, at + timedelta(seconds=SPIKE_S), SPIKE_PER_S * SPIKE_S)
    return {"shards_at_the_spike": shards, **figures}


@asynccontextmanager
async def _scraped(bench: Bench) -> AsyncIterator[None]:
    """Run an exporter, and scrape it each second, more often than Prometheus usually does."""
    with tempfile.TemporaryDirectory(prefix="shardclock-bench-") as folder:
        exporter = Exporter(
            ExporterConfig("127.0.0.1", 0, Path(folder) / "exporter.sock", REPORTED, bench.database.dsn)
        )
        exporter.start()
        scraping = asyncio.create_task(_scrape(f"{exporter.address}/metrics"))
        try:
            yield
        finally:
            scraping.cancel()
            await asyncio.wait([scraping])
            exporter.close()


async def _scrape(url: str) -> None:
    while True:
        await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read())  # noqa: S310 - our own page
        await asyncio.sleep(1)


def _cpu_us(rounds: Sequence[tuple[float, float]]) -> float:
    return round(1e6 * median(cpu for _, cpu in rounds) / BACKLOG, 3)


async def _drain(bench: Bench, session: Session, *, measured: bool) -> tuple[float, float]:
    """Drain a backlog with two loops; return the elapsed seconds, and the processor time, which varies less."""
    await add_overdue(session, BACKLOG)
    server = await server_of(session)
    busy_s, began_s = cpu_s([*family_of(server), psutil.Process()]), time.monotonic()
    await asyncio.gather(*(_drain_part(bench, shard, measured=measured) for shard in (0, 1)))
    took_s = time.monotonic() - began_s
    busy_s = cpu_s([*family_of(server), psutil.Process()]) - busy_s
    async with session.connection(timeout_s=300) as connection:
        await connection.execute("truncate shardclock.command_log")
        await connection.execute("vacuum shardclock.timers")
    return took_s, busy_s


async def _drain_part(bench: Bench, shard: int, *, measured: bool) -> None:
    lag_histograms = LagHistograms()
    async with bench.session() as session:
        holder = await holder_of(session, shard, 2)
        while True:
            measures = measured and lag_histograms.measures(BACKLOG_SCAN, has_backlog=True)
            taken = await claim_due(
                session, holder, BACKLOG_SCAN, lease_s=10, lag_edges=LAG_EDGES if measures else None
            )
            if not taken.fired:
                break
            lag_histograms.learn(taken.lags, BACKLOG_SCAN)
            if measured and not measures:
                lag_histograms.estimate(taken.fired, BACKLOG_SCAN)
        await end_holders(session, [holder], why="measured")


async def _claim_s(session: Session, holder: int) -> float:
    """Claim a thousand timers with a shard's statement; return the seconds that the claim took."""
    async with session.connection(timeout_s=60) as connection:
        await connection.execute(
            "insert into shardclock.timers (due_date) select now() + interval '1 s' from generate_series(1, 1000)"
        )
    began_s = time.perf_counter()
    taken = await claim_due(session, holder, Scan("own", 2, 4_200), lease_s=10, lag_edges=LAG_EDGES)
    took_s = time.perf_counter() - began_s
    assert len(taken.claimed) == 1_000
    async with session.connection(timeout_s=60) as connection:
        # Without this delete, the next claim would read the claimed rows again.
        await connection.execute("delete from shardclock.timers where claimed_by is not null")
    return took_s


async def _look_on(session: Session) -> None:
    """Read the forecast ten times as often as a coordinator."""
    while True:
        await read_forecast(session)
        await asyncio.sleep(0.5)


async def _timed(work: Awaitable[object]) -> float:
    began_s = time.perf_counter()
    await work
    return time.perf_counter() - began_s
