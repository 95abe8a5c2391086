"""Shardclock with webhooks to two endpoints, and a receiver of the webhooks."""

import asyncio
import subprocess
import sys
import time

from benchmarks.contenders.contender import Batch
from benchmarks.contenders.handlers import LEFT, PUT
from benchmarks.contenders.ours import PATIENCE_S, OnRay
from benchmarks.contenders.recorded import Recorded
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint, add_endpoint
from shardclock_server.webhooks.signing import new_secret

QUICK, STUCK = "webhook:quick", "webhook:stuck"
STARTS_S = 10.0


class WithEndpoint(Recorded, OnRay):
    """A cluster of two shards and its workers, a fast endpoint, and an endpoint that never answers."""

    left = LEFT

    def __init__(self) -> None:
        super().__init__(2, webhook_http=True, webhook_allow="127.0.0.0/8")
        self.name = "Shardclock, webhooks"
        self.settings = "as shipped, two shards; requests are signed; receiver: aiohttp, one process"

    async def open(self, dsn: str) -> None:
        """Set up the database, start the receiver, and add the receiver's endpoints."""
        await super().open(dsn)
        command = [sys.executable, "-m", "benchmarks.receiver", str(self.folder)]
        receiver = await asyncio.to_thread(subprocess.Popen, command)
        self.kept.callback(receiver.wait)
        self.kept.callback(receiver.kill)
        port = await self._port()
        async with self.session() as session:
            for target, path in ((QUICK, ""), (STUCK, "stuck")):
                url, name = f"http://127.0.0.1:{port}/{path}", target.removeprefix("webhook:")
                await add_endpoint(session, StoredEndpoint("default", name, url, {}, (new_secret(),), {}))

    async def put(self, batch: Batch, target: str = QUICK) -> None:
        """Insert the rows with one statement."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            await connection.execute(PUT, batch.at, batch.count, batch.every_s, target)

    async def _port(self) -> int:
        deadline_s = time.monotonic() + STARTS_S
        while not (self.folder / "port").exists():
            assert time.monotonic() < deadline_s, "the receiver starts"
            await asyncio.sleep(0.05)
        return int((self.folder / "port").read_text())
