"""Schedule the timers of a scenario, and compute figures from the records."""

import asyncio
import secrets
from datetime import datetime, timedelta

from shardclock_server.sql.cluster.holders import SHARD, Incarnation, register_holder
from shardclock_server.sql.session import Session

Figures = dict[str, object]

FILL = """
insert into shardclock.timers (due_date)
select now() + interval '1 day' + n * interval '1 millisecond' from generate_series(1, $1::integer) as n
"""
LAGS = """
select
    count(*) as fired,
    count(*) filter (where recorded_at < due_date) as early,
    count(*) - count(distinct timer_key) as double,
    extract(epoch from max(recorded_at) - min(recorded_at))::double precision as took_s,
    percentile_cont(array[0.5, 0.99, 1]) within group (
        order by extract(epoch from recorded_at - due_date)::double precision * 1000
    ) as lag_ms
from shardclock.command_log
where due_date >= $1 and due_date < $2
"""


async def holder_of(session: Session, part: int, count: int, *, role: str = SHARD) -> int:
    holder = secrets.randbits(63)
    await register_holder(session, Incarnation(holder, role, "benchmark", "benchmark", "", "", 0))
    async with session.connection() as connection:
        await connection.execute(
            "update shardclock.holders set part = $2, part_count = $3 where holder = $1", holder, part, count
        )
    return holder


async def add_overdue(session: Session, count: int) -> tuple[datetime, datetime]:
    """Add overdue timers in one transaction, so that all timers become visible at the same time."""
    async with session.connection(timeout_s=300) as connection:
        end: datetime = await connection.fetchval("select now()")
        begin = end - timedelta(seconds=count / 10_000)
        await connection.execute(
            "insert into shardclock.timers (due_date) select $1::timestamptz + n * interval '0.1 ms'"
            " from generate_series(0, $2::integer - 1) as n",
            begin,
            count,
        )
    return begin, end + timedelta(seconds=1)


async def lags(session: Session, begin: datetime, end: datetime, count: int) -> Figures:
    while True:
        async with session.connection(timeout_s=300) as connection:
            fired = await connection.fetchval(
                "select count(*) from shardclock.command_log where due_date >= $1 and due_date < $2", begin, end
            )
            if fired >= count:
                row = await connection.fetchrow(LAGS, begin, end)
                assert row is not None
                return {**dict(row), "lag_ms": [round(lag, 2) for lag in row["lag_ms"]]}
        await asyncio.sleep(2.0)


def lag_of(figures: Figures, index: int) -> float:
    lags = figures["lag_ms"]
    assert isinstance(lags, list)
    return float(lags[index])


async def pace(session: Session, at: datetime, *, rate: int, seconds: int) -> None:
    """Schedule `rate` timers a second at even intervals; the first is due at `at`."""
    async with session.connection(timeout_s=300) as connection:
        for second in range(seconds):
            await connection.execute(
                "insert into shardclock.timers (due_date)"
                " select $1::timestamptz + n * interval '1 second' / $2::integer"
                " from generate_series(0, $2::integer - 1) as n",
                at + timedelta(seconds=second),
                rate,
            )


async def soon(session: Session, seconds: int) -> datetime:
    """Return the next whole second after `seconds` from now."""
    async with session.connection(timeout_s=60) as connection:
        at: datetime = await connection.fetchval(
            "select date_trunc('second', now()) + $1::integer * interval '1 second'", seconds
        )
    return at
