"""Shardclock on Ray, and its upper limit: the same SQL statement in a loop, without Ray and with almost no Python."""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.contenders.contender import Batch, Contender, Firing
from benchmarks.rows import holder_of
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.running import RunningCluster
from shardclock_server.cluster.settings import load_settings
from shardclock_server.shards.scan_planner import OWN_FULL_SCAN_S, RECENT_S, SLOW_S
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.claims.scan_window import RotatingScan
from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import migrate
from shardclock_server.sql.session import QUEUE_PLANS, Session
from shardclock_server.workers.app import App

PATIENCE_S = 300.0
LOOK_EVERY_S = 0.001
# This contender only fires timers, and schedules none. Ray runs alone, because the benchmark measures Ray's keepers.
QUIET = {"metrics_port": 0, "gateway_enabled": False, "standby": False}
SETTLE_S = 8.0  # Ray continues to start idle worker processes for some seconds after it has answered
PUT = """
    insert into shardclock.timers (due_date)
    select $1::timestamptz + n * $3::double precision * interval '1 second' from generate_series(0, $2::integer - 1) n
"""
FIRED = """
    select extract(epoch from due_date)::double precision, extract(epoch from recorded_at)::double precision
    from shardclock.command_log
    where intent = 'TRIGGERED'
"""


class Ours(Contender):
    """A contender with Shardclock's database; a timer has fired when its record is in the log."""

    version = version("shardclock")

    async def open(self, dsn: str) -> None:
        """Apply our migrations."""
        await super().open(dsn)
        await migrate(dsn)

    async def put(self, batch: Batch) -> None:
        """Insert the rows with one statement."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            await connection.execute(PUT, batch.at, batch.count, batch.every_s)

    async def count(self) -> int:
        """Count the records."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            return int(await connection.fetchval("select count(*) from shardclock.command_log"))

    async def firings(self) -> Sequence[Firing]:
        """Read the records."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            return [Firing(*row) for row in await connection.fetch(FIRED)]

    def session(self) -> Session:
        """Open a session with the planner settings of a shard and a long timeout."""
        return Session(self.dsn, application="benchmark", timeout_s=PATIENCE_S, plans=QUEUE_PLANS)


class OnRay(Ours):
    """A cluster of `shards` shards on Ray without a stand-by; with `app`, as `up --app` starts it."""

    settings = "as shipped, without a stand-by"

    def __init__(self, shards: int, **settings: object) -> None:
        super().__init__()
        self.name = f"Shardclock, {shards} shard{'s' if shards > 1 else ''}"
        self.app: App | None = None
        self._shards = shards
        self._more = settings
        self._stack = contextlib.ExitStack()

    async def start(self) -> None:
        """Start Ray, and the cluster on Ray."""
        await self.launch()
        await asyncio.sleep(SETTLE_S)

    async def launch(self) -> None:
        """Start the cluster, and return when the shards have their slots; Ray may still be starting idle workers."""
        place = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="shardclock-bench-")))
        settings = load_settings(dsn=self.dsn, shards=self._shards, data_dir=place, **QUIET, **self._more)
        logs = self._stack.enter_context((place / "ray.log").open("wb"))
        database = Database(Dsn(self.dsn))
        cluster = RunningCluster(settings, database, tell=lambda _: None, logs=logs, app=self.app)
        self._stack.callback(cluster.stop)
        async with self.session() as session:
            await scale(session, SHARD, self._shards)
            await asyncio.to_thread(cluster.start)
            while sum(it.part_count == self._shards for it in await list_holders(session, SHARD)) < self._shards:
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop the cluster as `shardclock up` does."""
        await asyncio.to_thread(self._stack.close)

    def processes(self) -> list[psutil.Process]:
        """List the shard actors."""
        return [it for it in psutil.Process(os.getpid()).children(recursive=True) if "ShardActor" in it.name()]


class Limit(Ours):
    """Repeat the statement that claims and fires timers, on two connections."""

    name = "the statement alone"
    settings = "two connections, no Ray; polls every millisecond while no timer is due"

    def __init__(self) -> None:
        super().__init__()
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start two loops; each loop has half of the slots."""
        self._loops = [asyncio.create_task(self._loop(shard)) for shard in (0, 1)]

    async def stop(self) -> None:
        """Stop the loops."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    async def count(self) -> int:
        """Count the firings; raise the error of a failed loop."""
        self.raise_failures()
        return await super().count()

    def raise_failures(self) -> None:
        """Raise the error of a failed loop, if there is one."""
        for loop in self._loops:
            if loop.done():
                loop.result()

    def processes(self) -> list[psutil.Process]:
        """Return no process, because the loops run in the process of the benchmark."""
        return []

    async def _loop(self, shard: int) -> None:
        async with self.session() as session:
            holder = await holder_of(session, shard, 2)
            rounds = RotatingScan(OWN_FULL_SCAN_S, RECENT_S, SLOW_S)
            while True:
                window = rounds.begin(now_s=time.monotonic(), every_s=LOOK_EVERY_S)
                taken = await claim_due(session, holder, Scan("own", 0, 4_200, window=window), lease_s=10)
                rounds.learn(now_s=time.monotonic())
                while taken.saturated:
                    taken = await claim_due(session, holder, Scan("own", 0, 4_200), lease_s=10)
                if not taken.fired:
                    await asyncio.sleep(LOOK_EVERY_S)
