"""The scenarios: what is set up, what is measured."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from statistics import median

import psutil

from benchmarks.bench import Bench
from benchmarks.rows import FILL, Figures, add_overdue, holder_of, lag_of, lags, pace, soon
from sql.claims import Walk, take_due
from sql.holders import end_holders
from sql.session import Session

OVERDUE = 400_000
PENDING = 1_000_000
SETTLE_S = 8.0  # Ray starts its idle workers after it has answered


async def drain(bench: Bench) -> Figures:
    """Drain an overdue backlog by two shards on Ray, then by the same statement without Ray; medians of three."""
    await bench.start()
    await asyncio.sleep(SETTLE_S)
    async with bench.session() as session:
        cluster = [await _drained(session, []) for _ in range(3)]
        bench.cluster.stop()
        alone = [await _drained(session, [_drain_alone(bench, shard) for shard in (0, 1)]) for _ in range(3)]
    ratio = median(cluster) / median(alone)
    return {"cluster_per_s": cluster, "statement_alone_per_s": alone, "ratio_of_medians": round(ratio, 2)}


async def paced_1k(bench: Bench) -> Figures:
    """Fire 1,000 timers a second for 15 s, with a million pending."""
    return await _paced(bench, 1_000, 15)


async def paced_10k(bench: Bench) -> Figures:
    """Fire 10,000 timers a second for 15 s, with a million pending."""
    return await _paced(bench, 10_000, 15)


async def burst(bench: Bench) -> Figures:
    """Fire 100,000 timers that are due in one instant, and a paced thousand that are due 5 s later."""
    await bench.start()
    await asyncio.sleep(SETTLE_S)
    async with bench.session() as session:
        at = await soon(session, 6)
        async with session.connection(timeout_s=60) as connection:
            await connection.execute(
                "insert into shardclock.timers (due_date) select $1::timestamptz from generate_series(1, 100000)", at
            )
            await connection.execute(
                "insert into shardclock.timers (due_date) select $1::timestamptz + interval '5 s' + n * interval '1 ms'"
                " from generate_series(1, 1000) as n",
                at,
            )
        instant = await lags(session, at, at + timedelta(seconds=1), 100_000)
        later = await lags(session, at + timedelta(seconds=5), at + timedelta(seconds=7), 1_000)
    return {"drained_s": lag_of(instant, 2) / 1000, "later_p50_ms": lag_of(later, 0), "later_p99_ms": lag_of(later, 1)}


async def claim_cost(bench: Bench) -> Figures:
    """Claim a thousand timers, and nothing at all, with 100 thousand and with 10 million pending."""
    figures: Figures = {}
    async with bench.session() as session:
        holder = await holder_of(session, 0, 1)
        for millions, more in ((0.1, 100_000), (10, 9_900_000)):
            async with session.connection(timeout_s=300) as connection:
                await connection.execute(FILL, more)
            figures[f"claim_1000_ms_at_{millions}m"] = await _claim_ms(session, holder, due=1_000)
            figures[f"claim_none_ms_at_{millions}m"] = await _claim_ms(session, holder, due=0)
    return figures


async def idle(bench: Bench) -> Figures:
    """Measure the processor time of two idle shards, the coordinator and Postgres, beside an idle Ray."""
    await bench.start()
    await asyncio.sleep(5)
    mine = [p for p in psutil.Process().children(recursive=True) if _is_ours(p)]
    mine += [p for p in psutil.process_iter() if p.name() == "postgres" and str(p.username()) != "nobody"]
    before = {p.pid: _cpu_s(p) for p in mine}
    ray = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    ray_before = {p.pid: _cpu_s(p) for p in ray}
    seconds = 20.0
    await asyncio.sleep(seconds)
    spent: dict[str, float] = {}
    for process in mine:
        name = process.name().removeprefix("ray::").split(".")[0]
        spent[name] = spent.get(name, 0.0) + (_cpu_s(process) - before[process.pid]) / seconds * 100
    beside = sum(_cpu_s(p) - ray_before[p.pid] for p in ray) / seconds * 100
    return {
        "percent_of_a_core": {name: round(value, 2) for name, value in spent.items()},
        "total_percent": round(sum(spent.values()), 2),
        "idle_ray_percent": round(beside, 2),
    }


async def _paced(bench: Bench, rate: int, seconds: int) -> Figures:
    async with bench.session() as session, session.connection(timeout_s=300) as connection:
        await connection.execute(FILL, PENDING)
        await connection.execute("vacuum analyze shardclock.timers")
    await bench.start()
    await asyncio.sleep(SETTLE_S)
    async with bench.session() as session:
        at = await soon(session, 8)
        await pace(session, at, rate=rate, seconds=seconds)
        return await lags(session, at, at + timedelta(seconds=seconds), rate * seconds)


async def _drained(session: Session, drains: Sequence[Coroutine[None, None, None]]) -> int:
    """Give the timers fired in a second, from the first record to the last."""
    begin, end = await add_overdue(session, OVERDUE)
    await asyncio.gather(*drains)
    figures = await lags(session, begin, end, OVERDUE)
    assert figures["double"] == figures["early"] == 0
    async with session.connection(timeout_s=300) as connection:
        await connection.execute("truncate shardclock.command_log")
        await connection.execute("vacuum shardclock.timers")
    return round(OVERDUE / float(str(figures["took_s"])))


async def _drain_alone(bench: Bench, shard: int) -> None:
    async with bench.session() as session:
        holder = await holder_of(session, shard, 2)
        while (await take_due(session, holder, Walk("own", 0, 4_200), lease_s=10)).fired:
            pass
        await end_holders(session, [holder], why="measured")


async def _claim_ms(session: Session, holder: int, *, due: int) -> float:
    times: list[float] = []
    for _ in range(15):
        async with session.connection(timeout_s=60) as connection:
            await connection.execute(
                "insert into shardclock.timers (due_date)"
                " select now() + interval '1 s' from generate_series(1, $1::integer)",
                due,
            )
        began = time.perf_counter()
        taken = await take_due(session, holder, Walk("own", 2, 4_200), lease_s=10)
        times.append((time.perf_counter() - began) * 1000)
        assert len(taken.claimed) == due
        async with session.connection(timeout_s=60) as connection:
            await connection.execute("delete from shardclock.timers where claimed_by is not null")
    return round(sorted(times)[len(times) // 2], 2)


def _is_ours(process: psutil.Process) -> bool:
    return "ShardActor" in process.name() or "CoordinatorAct" in process.name()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
