"""Scenarios for the cost of claims, of locked timers and of an idle cluster."""

import asyncio
import time
from datetime import timedelta

import psutil

from benchmarks.bench import Bench
from benchmarks.rows import FILL, Figures, holder_of, lags, pace, soon
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.session import Session

LOCKED_COUNT, LOCKED_PER_S, LOCKED_S = 15_000, 200, 10
# The locked timers become due while the transaction is open; the query finds their records by the due date.
LOCKED = """
insert into shardclock.timers (due_date)
select now() + interval '2.5 s' from generate_series(1, $1::integer)
returning timer_key
"""
UNLEASED = "select count(*) from shardclock.timers where timer_key = any ($1::bigint[]) and claimed_by is null"


async def claim_cost(bench: Bench) -> Figures:
    """Measure how long a claim takes if a thousand timers are due, and if no timer is due.

    The table has 100 thousand pending timers, and then 10 million.
    """
    figures: Figures = {}
    async with bench.session() as session:
        holder = await holder_of(session, 0, 1)
        for millions, more in ((0.1, 100_000), (10, 9_900_000)):
            async with session.connection(timeout_s=300) as connection:
                await connection.execute(FILL, more)
            figures[f"claim_1000_ms_at_{millions}m"] = await _claim_ms(session, holder, due=1_000)
            figures[f"claim_none_ms_at_{millions}m"] = await _claim_ms(session, holder, due=0)
    return figures


async def locked(bench: Bench) -> Figures:
    """Fire timers at a pace: first without locks, then while a client has locked thousands of leased timers."""
    await bench.start()
    figures: Figures = {}
    async with bench.session() as session, bench.session() as client:
        figures["alone"] = await _paced(session)
        async with client.connection(timeout_s=300) as connection:
            keys = [row["timer_key"] for row in await connection.fetch(LOCKED, LOCKED_COUNT)]
            while await connection.fetchval(UNLEASED, keys):
                await asyncio.sleep(0.05)
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("select shardclock.cancel_timers($1)", keys)
            figures["beside_locked"] = await _paced(session)
            await transaction.rollback()
    return figures


async def _paced(session: Session) -> Figures:
    begin = await soon(session, 3)
    await pace(session, begin, rate=LOCKED_PER_S, seconds=LOCKED_S)
    return await lags(session, begin, begin + timedelta(seconds=LOCKED_S), LOCKED_PER_S * LOCKED_S)


async def idle(bench: Bench) -> Figures:
    """Measure the processor time of an idle cluster: two shards, the coordinator, Postgres, and Ray's own processes."""
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
        taken = await claim_due(session, holder, Scan("own", 2, 4_200), lease_s=10)
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
