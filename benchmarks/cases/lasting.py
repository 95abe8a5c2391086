"""Fire timers for minutes, with and without a transaction that holds an old snapshot; measure lag, memory and disk."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from benchmarks.cases.case import Case, Figure, Figures, NotForIt, Part, lags_of, memory_of
from benchmarks.cases.flow import flow, within
from benchmarks.contenders import Limit, OnRay, Peer, each_peer
from benchmarks.contenders.contender import Contender, Firing
from benchmarks.postgres import connected

PER_S = 5_000
SOAK_S = 600
HELD_S = 180
STRETCH_S = 30.0
WAL = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::double precision"
SIZE = "select pg_database_size(current_database())::double precision"
LASTING = ("graphile-worker, local queue", "pg-boss", "pgqueuer")  # the other peers are too slow for this pace


async def soak(contender: Contender) -> Figures:
    """Fire at a pace for ten minutes; compare the first half minute with the last half minute."""
    _require_lasting(contender)
    await contender.start()
    before = memory_of(contender)["rss"]
    wal, size = await _value(contender.dsn, WAL), await _value(contender.dsn, SIZE)
    batch, fired = await flow(contender, PER_S, SOAK_S)
    wal, size = await _value(contender.dsn, WAL) - wal, await _value(contender.dsn, SIZE) - size
    return {
        **_ends(fired, batch.begin_s, batch.end_s),
        "fired": len(fired) / batch.count,
        "wal": wal / batch.count,
        "disk": size / batch.count,
        "grown": (memory_of(contender)["rss"] - before) / (SOAK_S / 60),
    }


async def held(contender: Contender) -> Figures:
    """Fire at a pace while a transaction holds a snapshot, so that vacuum can't remove dead rows."""
    _require_lasting(contender)
    await contender.start()
    async with _snapshot(contender.dsn):
        batch, fired = await flow(contender, PER_S, HELD_S)
    return {**_ends(fired, batch.begin_s, batch.end_s), "fired": len(fired) / batch.count}


def _require_lasting(contender: Contender) -> None:
    if isinstance(contender, Peer) and contender.name not in LASTING:
        raise NotForIt("too slow for this pace: see `paced`")


def _ends(fired: Sequence[Firing], begin_s: float, end_s: float) -> dict[str, float]:
    first = lags_of(within(fired, begin_s, STRETCH_S))
    last = lags_of(within(fired, end_s - STRETCH_S, STRETCH_S))
    return {f"{name}_{q}": lags[q] for name, lags in (("first", first), ("last", last)) for q in ("p50", "p99") if lags}


@contextlib.asynccontextmanager
async def _snapshot(dsn: str) -> AsyncIterator[None]:
    async with connected(dsn) as connection, connection.transaction(isolation="repeatable_read"):
        await connection.execute("set idle_in_transaction_session_timeout = 0")
        await connection.fetchval("select 1 from pg_class limit 1")
        yield


async def _value(dsn: str, text: str) -> float:
    async with connected(dsn) as connection:
        return float(await connection.fetchval(text))


ENDS = tuple(
    Figure(f"{name}_{q}", f"{name} {STRETCH_S:.0f} s, lag {q}", "s")
    for name in ("first", "last")
    for q in ("p50", "p99")
)
FIRED = Figure("fired", "fired", "percentunit", more_is_better=True)
CASES: Sequence[Case] = [
    Case(
        "soak",
        "Ten minutes at 5,000 a second",
        f"{PER_S:,} timers a second fire for {SOAK_S // 60} minutes. The figures are the lag at the beginning and at"
        " the end, the bytes of write-ahead log and of disk for each timer, and the growth of the largest worker's"
        " memory per minute, from before the first timer to the end. `The statement alone` is not measured, because it"
        " would write the same rows.",
        (
            Part("How late", (*ENDS, FIRED), "lag"),
            Part(
                "Costs",
                (
                    Figure("wal", "log written a timer", "bytes"),
                    Figure("disk", "disk a timer", "bytes"),
                    Figure("grown", "memory, growth a minute", "bytes"),
                ),
                "cost",
            ),
        ),
        lambda: [OnRay(2), *each_peer()],
        soak,
    ),
    Case(
        "oldxmin",
        "Three minutes under a snapshot that is held open",
        f"{PER_S:,} timers a second fire for {HELD_S // 60} minutes, while an open transaction has an older snapshot,"
        " so that vacuum can't remove any dead row. The figures are the lag at the beginning and at the end.",
        (Part("", (*ENDS, FIRED)),),
        lambda: [OnRay(2), Limit(), *each_peer()],
        held,
    ),
]
