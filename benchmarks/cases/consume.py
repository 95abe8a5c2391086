"""Consume the log: measure its rate, the delay until a waiting group gets a record, and the cost of notifications."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from benchmarks.cases.case import Case, Figure, Figures, Part, lags_of
from benchmarks.cases.drain import drained_per_s
from benchmarks.contenders import OnRay
from benchmarks.contenders.contender import Batch, Contender, Firing
from shardclock.log import LogRecord, consume
from shardclock.log.async_groups import open_group
from shardclock_server.sql.log.groups import drop_group
from shardclock_server.sql.session import Connection

GROUP = "benchmark"
RECORDS = 300_000
PACED_PER_S, SECONDS, MARGIN_S = 25, 20, 5.0
MADE = "create table public.consumed (records bigint, last_position bigint)"
INSERT = "insert into public.consumed values ($1, $2)"
CONSUMED = "select coalesce(sum(records), 0) from public.consumed"
LOOK_S, PATIENCE_S = 0.01, 300.0


class Consumers(OnRay):
    """Two shards, and a consumer group; its members are tasks in the process of the benchmark."""

    def __init__(self, members: int) -> None:
        super().__init__(2)
        self.members = members
        self.name += f", {members} consumer{'s' if members > 1 else ''}"
        self.settings = "as shipped; `consume`, one insert a batch, all members in one process"

    async def open(self, dsn: str) -> None:
        """Create a table that counts the consumed records."""
        await super().open(dsn)
        async with self.session() as session, session.connection() as connection:
            await connection.execute(MADE)

    @asynccontextmanager
    async def consuming(self, work: Any) -> AsyncIterator[None]:
        """Run the group's members during a block; if a member fails, raise its error."""
        partitions = self.members
        members = [
            asyncio.create_task(consume(lambda: asyncpg.connect(self.dsn), GROUP, work, partitions=partitions))
            for _ in range(self.members)
        ]
        try:
            yield
            for member in members:
                if member.done():
                    member.result()
        finally:
            for member in members:
                member.cancel()
            await asyncio.gather(*members, return_exceptions=True)


async def measure(contender: Contender) -> Figures:
    """Drain a backlog twice: without a consumer group, and with a group without members. Then let members read records.

    The group first reads all records of the log, and then waits for single records.
    """
    assert isinstance(contender, Consumers)
    await contender.start()
    drained = await drained_per_s(contender, RECORDS)
    async with contender.session() as session:
        await open_group(session, GROUP, contender.members)
        drained_with_group = await drained_per_s(contender, RECORDS)
        per_s = await _read_all(contender, 2 * RECORDS)
        seen = await _wait_for_each(contender)
        await drop_group(session, GROUP)
    lags = lags_of(seen)
    return {
        "per_s": per_s,
        "p50": lags["p50"],
        "p99": lags["p99"],
        "drained": drained,
        "drained_with_group": drained_with_group,
    }


async def _read_all(contender: Consumers, count: int) -> float:
    """Consume all records, with one insert for each batch; return the records per second until the last commit."""

    async def insert(connection: Connection, records: Sequence[LogRecord]) -> None:
        await connection.execute(INSERT, len(records), records[-1].position)

    async with contender.session() as session, session.connection(timeout_s=PATIENCE_S) as looking:
        began_s = time.perf_counter()
        async with contender.consuming(insert):
            while (read := await looking.fetchval(CONSUMED)) < count:
                await asyncio.sleep(LOOK_S)
            took_s = time.perf_counter() - began_s
    assert read == count, f"{read:,} were read of {count:,}"
    return count / took_s


async def _wait_for_each(contender: Consumers) -> list[Firing]:
    """Fire timers one by one; return the time of each record, and the time at which the waiting group gets it."""
    seen: list[Firing] = []

    async def look(_: Connection, records: Sequence[LogRecord]) -> None:
        now_s = time.time()
        seen.extend(Firing(it.recorded_at.timestamp(), now_s) for it in records)

    batch = Batch.paced(PACED_PER_S, SECONDS, in_s=MARGIN_S)
    async with contender.consuming(look), asyncio.timeout(MARGIN_S + SECONDS + 20):
        await contender.put(batch)
        while len(seen) < batch.count:
            await asyncio.sleep(0.1)
    return seen


CASE = Case(
    "consume",
    "The log, consumed",
    f"{RECORDS:,} overdue timers fire twice: first without a group, then with a group without listening members, for"
    f" which shards still send notifications. Then the members of the group read all {2 * RECORDS:,} records of the"
    f" log, and write one row for each batch. At the end {PACED_PER_S} timers fire each second; the figure is the time"
    " from the write of a record until a waiting member starts to process the record.",
    (
        Part("Records read a second", (Figure("per_s", "records a second", "cps", more_is_better=True),)),
        Part(
            "A record, until a waiting group works on it",
            (Figure("p50", "p50", "s"), Figure("p99", "p99", "s")),
            key="seen",
        ),
        Part(
            "Drained without and with a group",
            (
                Figure("drained", "timers a second, no group", "cps", more_is_better=True, compared=False),
                Figure("drained_with_group", "with a group", "cps", more_is_better=True, compared=False),
            ),
            key="hints",
        ),
    ),
    lambda: [Consumers(1), Consumers(4)],
    measure,
)
