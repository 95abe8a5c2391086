"""Workers as plain processes: no Ray and no coordinator looks after them, so only claims and leases are at work."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import IO

import psutil

from shardclock import describe, find_handlers
from sql.deliveries.handlers import declare_handlers
from sql.session import Session
from tests.chaos.away import AWAY, LOOK_S, connected, until
from tests.support.deliveries import add_worker
from tests.support.factories import BOUND_S
from tests.support.processes import title
from tests.support.shard_pool import incarnation
from workers.handler import HandlerSpec

APP = "tests.chaos.app"
AGAIN_S = 1.0  # until one that has died is started anew
START_S = 60.0
SERVES = "select exists (select from shardclock.presence where holder = $1 and seen_at > started_at)"
IS_PID = "update shardclock.holders set pid = $2 where holder = $1"
END = """
    update shardclock.holders
    set ended_at = now(), ended_why = 'dead', part = null, part_count = null
    where holder = $1 and ended_at is null
"""


class WorkerProcess:
    """One worker's process, with its handlers' processes below it."""

    def __init__(
        self, holder: int, handlers: Sequence[HandlerSpec], dsn: str, *, build: Path | None, log: IO[bytes] | None
    ) -> None:
        self.holder = holder
        described = json.dumps([asdict(spec) for spec in handlers])
        self._process = Popen(
            [sys.executable, "-m", "tests.support.worker_process", str(holder), APP, described, dsn],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=log,
            cwd=build,  # Python looks here first, so the worker may run another build than the rig
        )

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Say whether the process has ended."""
        return self._process.poll() is not None

    def children(self) -> list[psutil.Process]:
        """Find the processes of its handlers."""
        try:
            return psutil.Process(self.pid).children()
        except psutil.Error:
            return []

    def kill(self) -> None:
        """Kill the process as `kill -9` does, and wait for its end; its handlers' processes end by themselves."""
        self._process.kill()
        self._process.wait(BOUND_S)


class Workers:
    """Keep so many workers with the app of the rig; one that has died is started anew a moment later."""

    def __init__(self, count: int, *, build: Path | None, log: IO[bytes] | None) -> None:
        self._count, self._build, self._log = count, build, log
        self._handlers: list[HandlerSpec] = []
        self._running: dict[int, WorkerProcess] = {}
        self._zombies: list[WorkerProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._dsn = self._direct_dsn = ""

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Declare the app's handlers, and start all workers, each with its assignment."""
        self._dsn, self._direct_dsn = dsn, direct_dsn
        if not self._count:
            return
        self._handlers = [HandlerSpec.of(it) for it in describe(find_handlers([APP]).values())]
        async with Session(dsn, application="chaos app") as session:
            await declare_handlers(session, [handler.declared() for handler in self._handlers])
        for part in range(self._count):
            await self._start(part)
        self._tasks.append(asyncio.create_task(self._keep()))

    def stop(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        for process in [*self._running.values(), *self._zombies]:
            process.kill()

    def processes(self, word: str) -> list[psutil.Process]:
        """Find the processes of handlers with a word in their command lines."""
        return [child for it in self._running.values() for child in it.children() if word in title(child)]

    def keeps(self, holder: int) -> bool:
        """Say whether a holder is one of them."""
        return any(process.holder == holder for process in self._running.values())

    async def stand_in(self, holder: int) -> None:
        """Start another worker for the part of one that is there, and wait until it is at work.

        errors:  LookupError  another fault has ended it, or kept it from its first sign of life
        """
        part = next(part for part, process in self._running.items() if process.holder == holder)
        self._zombies.append(self._running.pop(part))
        await self._start(part)
        successor = self._running[part]

        async def serves_or_ended() -> bool:
            # A connection of its own each time: Postgres may be away meanwhile.
            async with connected(self._direct_dsn) as admin:
                return successor.has_ended() or bool(await admin.fetchval(SERVES, successor.holder))

        if not await until(serves_or_ended, within_s=START_S) or successor.has_ended():
            raise LookupError(f"worker {successor.holder:x} is not at work")

    async def _start(self, part: int) -> None:
        holder = incarnation().holder
        await add_worker(self._direct_dsn, holder, part, self._count)
        process = WorkerProcess(holder, self._handlers, self._dsn, build=self._build, log=self._log)
        try:
            async with connected(self._direct_dsn) as admin:
                await admin.execute(IS_PID, holder, process.pid)
        except BaseException:
            process.kill()
            raise
        self._running[part] = process

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for part, process in list(self._running.items()):
                if process.has_ended():
                    del self._running[part]
                    self._tasks.append(asyncio.create_task(self._start_again(part, process)))

    async def _start_again(self, part: int, dead: WorkerProcess) -> None:
        """Declare a worker dead, which frees what it had in hand, and start it anew, as often as it takes."""
        await asyncio.sleep(AGAIN_S)
        while True:
            try:
                async with connected(self._direct_dsn) as admin:
                    await admin.execute(END, dead.holder)
                await self._start(part)
            except AWAY:
                await asyncio.sleep(LOOK_S)
            else:
                return
