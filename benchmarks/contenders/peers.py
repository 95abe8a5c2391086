"""The peers: other job queues and schedulers that store their jobs in Postgres.

The workers of a peer run in separate processes, and record the time of each job's call. The scripts of the workers are
in benchmarks/peers.
"""

import asyncio
import itertools
import subprocess
from datetime import timedelta

import psutil

from benchmarks.contenders.contender import Absent, Batch
from benchmarks.contenders.installed import command_of, has_changed, versions
from benchmarks.contenders.kinds import DUE, Kind
from benchmarks.contenders.recorded import Recorded
from benchmarks.postgres import connected

PATIENCE_S = 600.0
STOP_S = 15.0
PART = 20_000  # rows in one statement


class Peer(Recorded):
    """Two worker processes of a peer."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.name, self.settings, self.drained, self.added = kind.name, kind.settings, kind.drained, kind.added
        self.pending_most = 1_000_000 if kind.put else kind.added
        self.version = versions().get(kind.package, "")
        self.left = kind.left
        self._workers: list[asyncio.subprocess.Process] = []
        self._number = itertools.count(1)

    async def open(self, dsn: str) -> None:
        """Create the peer's tables."""
        how = f"`make {self.kind.make}` installs it"
        if not self.version:
            raise Absent(f"{self.kind.package} is not installed: {how}")
        if has_changed(self.kind.script):
            raise Absent(f"its script has changed since it was installed: {how} again")
        await super().open(dsn)
        await self._run("open")

    async def put(self, batch: Batch) -> None:
        """Fill the peer's table with SQL, or with the peer's library if its rows can't be written with SQL."""
        if self.kind.put is None:
            await self._run("put", str(batch.count), repr(batch.begin_s), repr(batch.every_s))
            return
        async with connected(self.dsn) as connection, connection.transaction():
            for done in range(0, batch.count, PART):
                at = batch.at + timedelta(seconds=done * batch.every_s)
                part = min(PART, batch.count - done)
                text = self.kind.put.format(due=DUE)
                await connection.execute(text, at, part, batch.every_s, timeout=PATIENCE_S)

    async def add(self, count: int) -> float:
        """Schedule timers with the bulk function of the peer's library; return the seconds that the call took."""
        return float(await self._run("add", str(count)))

    async def start(self) -> None:
        """Start two workers."""
        for _ in range(2):
            self._workers.append(await self._worker())

    async def stop(self) -> None:
        """Stop the workers."""
        for worker in self._workers:
            if worker.returncode is None and worker.stdin is not None:
                worker.stdin.close()
        for worker in self._workers:
            try:
                await asyncio.wait_for(worker.wait(), STOP_S)
            except TimeoutError:
                worker.kill()
                await worker.wait()
        self._workers = []

    def processes(self) -> list[psutil.Process]:
        """List the workers."""
        return [psutil.Process(worker.pid) for worker in self._workers]

    async def _worker(self) -> asyncio.subprocess.Process:
        sheet = self.folder / f"sheet-{next(self._number)}"
        worker = await asyncio.create_subprocess_exec(
            *command_of(self.kind.script), "work", self.dsn, str(sheet), *self.kind.options,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert worker.stdout is not None
        if not await asyncio.wait_for(worker.stdout.readline(), PATIENCE_S):
            await worker.wait()
            raise Absent(f"a worker of {self.name} ended before it was ready")
        return worker

    async def _run(self, verb: str, *more: str) -> str:
        try:
            done = await asyncio.create_subprocess_exec(
                *command_of(self.kind.script), verb, self.dsn, *more,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Absent(f"{self.name} can't be started: {error.filename} is missing") from None
        said, complained = await asyncio.wait_for(done.communicate(), PATIENCE_S)
        if done.returncode:
            last = complained.decode().strip().splitlines()[-1:]
            raise Absent(f"{self.name} can't {verb}: {' '.join(last)}")
        return said.decode().strip()
