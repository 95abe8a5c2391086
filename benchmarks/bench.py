"""Run a cluster for one scenario, on a separate database."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shardclock_server.cluster.database import Database, open_database
from shardclock_server.cluster.running import RunningCluster
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.sql.cluster.holders import list_holders
from shardclock_server.sql.session import QUEUE_PLANS, Session

PATIENCE_S = 300.0


@dataclass
class Bench:
    """A database, and a cluster that has not started yet."""

    database: Database
    cluster: RunningCluster

    def session(self) -> Session:
        """Open a session with the planner settings of a shard and a long timeout."""
        return Session(self.database.dsn, application="benchmark", timeout_s=PATIENCE_S, plans=QUEUE_PLANS)

    async def start(self, shards: int = 2) -> None:
        """Start the cluster and wait for its shards."""
        await asyncio.to_thread(self.cluster.start)
        async with self.session() as session:
            while sum(h.part_count == shards for h in await list_holders(session)) < shards:
                await asyncio.sleep(0.05)


@contextmanager
def bench() -> Iterator[Bench]:
    """Create a database and a cluster on Ray without a stand-by for one scenario; remove both after the scenario."""
    data_dir = Path(tempfile.mkdtemp(prefix="shardclock-bench-"))
    settings: Settings = load_settings(data_dir=data_dir / "postgres").model_copy(
        update={"dsn": None, "metrics_port": 0, "gateway_enabled": False, "standby": False}
    )
    try:
        with (data_dir / "ray.log").open("wb") as logs, open_database(settings) as database:
            cluster = RunningCluster(settings, database, tell=lambda _: None, logs=logs)
            try:
                yield Bench(database, cluster)
            finally:
                cluster.stop()
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
