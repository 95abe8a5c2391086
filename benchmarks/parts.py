"""Measure the cost of each operation on a timer, for the calculation in docs/operate/scale.md."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.bench import Bench
from benchmarks.processes import cpu_s, family_of, server_of
from benchmarks.rows import FILL, Figures, holder_of
from shardclock.log.async_reading import read_log
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.cluster.holders import SHARD, WORKER, list_holders
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.deliveries.claim import DeliveryScan, claim_deliveries
from shardclock_server.sql.deliveries.handlers import DeclaredHandler, declare_handlers
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS, DeliveryEnding, Settlement, settle_deliveries
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import NewTimer

TIMERS, RESTING = 200_000, 1_000_000
AT_ONCE = 2_000  # timers in one request, as in an import of a file
TARGET = "nothing"
PATIENCE_S = 300.0
IDLE_S = 15.0
SIZES = """
    select c.relname, pg_relation_size(c.oid)
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'shardclock' and c.relname ~ $1 and c.relkind in ('r', 'i') and pg_relation_size(c.oid) > 100000
"""
SINCE_CHECKPOINT = "select pg_current_wal_insert_lsn() - redo_lsn from pg_control_checkpoint()"
BUSY = """
    select xact_commit + xact_rollback as transactions,
        (select count(*) from pg_stat_activity where application_name like 'shardclock%') as connections
    from pg_stat_database
    where datname = current_database()
"""


@dataclass
class Meter:
    """Measure the processor time and the write-ahead log of operations."""

    session: Session
    server: psutil.Process

    async def cost(self, work: Awaitable[int]) -> Figures:
        """Run a function that returns its number of timers; return the figures for one timer."""
        server_s, client_s, written = cpu_s(family_of(self.server)), cpu_s([psutil.Process()]), await self._written()
        began_s = time.monotonic()
        count = await work
        took_s, written = time.monotonic() - began_s, await self._written() - written
        return {
            "us": round(1e6 * took_s / count, 2),
            "postgres_us": round(1e6 * (cpu_s(family_of(self.server)) - server_s) / count, 2),
            "client_us": round(1e6 * (cpu_s([psutil.Process()]) - client_s) / count, 2),
            "wal_bytes": round(written / count),
        }

    async def _written(self) -> int:
        return int(await self.ask("select pg_current_wal_insert_lsn() - '0/0'"))

    async def ask(self, text: str, *values: object) -> int:
        """Return the number that a query returns."""
        async with self.session.connection(timeout_s=PATIENCE_S) as connection:
            return int(await connection.fetchval(text, *values))

    async def do(self, text: str, *values: object) -> int:
        """Run a command."""
        async with self.session.connection(timeout_s=PATIENCE_S) as connection:
            await connection.execute(text, *values)
        return TIMERS

    async def sizes(self, tables: str, rows: int) -> Figures:
        """Return the bytes per row on disk of each table and index that is not almost empty."""
        async with self.session.connection(timeout_s=PATIENCE_S) as connection:
            return {name: round(size / rows, 1) for name, size in await connection.fetch(SIZES, tables)}


async def parts(bench: Bench) -> Figures:
    """Measure each step of a timer's life with a million other timers; then measure a recovery.

    Autovacuum is off, so that vacuum runs only when its cost is measured.
    """
    async with bench.session() as session:
        meter = Meter(session, await server_of(session))
        await meter.do("alter system set autovacuum = off")
        await meter.do("select pg_reload_conf()")
        await meter.do(FILL, RESTING)
        await meter.do("vacuum (analyze) shardclock.timers")
        figures: Figures = {"rest_bytes": await meter.sizes("^timers", RESTING)}
        await meter.do("checkpoint")
        figures["plain"] = await _plain(meter)
        figures["log_bytes"] = await meter.sizes("^command_log", TIMERS)
        figures["read"] = await meter.cost(_read(session))
        figures["handled"] = await _handled(bench, meter)
    figures["redo"] = await _redo(bench)
    return figures


async def _plain(meter: Meter) -> Figures:
    return {
        "create": await meter.cost(_create(meter.session)),
        "fire": await meter.cost(_fire(meter.session)),
        "vacuum": await meter.cost(meter.do("vacuum shardclock.timers")),
    }


async def _handled(bench: Bench, meter: Meter) -> Figures:
    await declare_handlers(meter.session, [DeclaredHandler(TARGET, "nowhere:nothing", "{}")])
    settles = Session(bench.database.dsn, application="benchmark", timeout_s=PATIENCE_S, plans=SETTLE_PLANS)
    async with settles:
        create = await meter.cost(_create(meter.session, target=TARGET, payload={"order": 4711}))
        fire = await meter.cost(_fire(meter.session))
        settle = await meter.cost(_settle(meter.session, settles))
    vacuum = await meter.cost(meter.do("vacuum shardclock.timers, shardclock.deliveries"))
    return {"create": create, "fire": fire, "claim_and_settle": settle, "vacuum": vacuum}


async def _create(session: Session, **more: object) -> int:
    """Schedule timers that are already due, in batches."""
    timer = NewTimer.from_fields({"delay": "PT0S", **more})
    for _ in range(TIMERS // AT_ONCE):
        await ScheduleBatch([timer] * AT_ONCE).send(session)
    return TIMERS


async def _fire(session: Session) -> int:
    holder, fired = await holder_of(session, 0, 1), 0
    while fired < TIMERS:
        fired += (await claim_due(session, holder, Scan("own", 0, 4_200), lease_s=10)).fired
    return fired


async def _settle(session: Session, settles: Session) -> int:
    holder, settled = await holder_of(session, 0, 1, role=WORKER), 0
    while settled < TIMERS:
        taken = await claim_deliveries(session, holder, DeliveryScan([TARGET], AT_ONCE), lease_s=10)
        ends: Sequence[Settlement] = [Settlement(it, DeliveryEnding.DELIVERED) for it in taken.claimed]
        await settle_deliveries(settles, holder, ends)
        settled += len(ends)
    return settled


async def _read(session: Session) -> int:
    position, read = 0, 0
    while records := await read_log(session, position, limit=5_000):
        position, read = records[-1].position, read + len(records)
    return read


async def _redo(bench: Bench) -> Figures:
    """Kill Postgres, and let it recover: one process replays the write-ahead log, as on a replica."""
    async with bench.session() as session:
        meter = Meter(session, await server_of(session))
        written = await meter.ask(SINCE_CHECKPOINT)
        async with session.connection() as connection:
            log = Path(await connection.fetchval("show data_directory")) / "log"
    meter.server.kill()
    meter.server.wait()
    await asyncio.to_thread(bench.database.restart_if_dead)
    said = next(line for line in reversed(log.read_text().splitlines()) if "redo done at" in line)
    took_s = float(said.rpartition("elapsed: ")[2].split()[0])
    return {"wal_mb": round(written / 1e6), "seconds": took_s, "mb_per_s": round(written / 1e6 / took_s)}


async def idle_shards(bench: Bench) -> Figures:
    """Count the transactions and connections of idle shards, first with two shards, then with four."""
    await bench.start()
    async with bench.session() as session:
        two = await _busy(session)
        await scale(session, SHARD, 4)
        while sum(it.part_count == 4 for it in await list_holders(session, SHARD)) < 4:
            await asyncio.sleep(0.05)
        four = await _busy(session)
    return {"two": two, "four": four, "each": {key: round((four[key] - two[key]) / 2, 1) for key in two}}


async def _busy(session: Session) -> dict[str, float]:
    """Measure an idle cluster after its start, for one second."""
    await asyncio.sleep(5)
    before = await _counters(session)
    server = await server_of(session)
    began_s, busy_s = time.monotonic(), cpu_s(family_of(server))
    await asyncio.sleep(IDLE_S)
    after, took_s = await _counters(session), time.monotonic() - began_s
    return {
        "transactions_per_s": round((after[0] - before[0]) / took_s, 1),
        "connections": after[1],
        "postgres_percent": round(100 * (cpu_s(family_of(server)) - busy_s) / took_s, 2),
    }


async def _counters(session: Session) -> tuple[int, int]:
    async with session.connection() as connection:
        row = await connection.fetchrow(BUSY)
    assert row is not None
    return int(row[0]), int(row[1])
