"""Run workers as plain processes, so that a run tests only claims and leases."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import IO

import psutil

from chaos.keeper_pool import KeeperPool, KeeperProcess
from shardclock import describe, find_handlers
from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.deliveries.handlers import declare_handlers
from shardclock_server.sql.session import Session
from shardclock_server.workers.handler import HandlerSpec
from tests.support.factories import BOUND_S
from tests.support.processes import title

APP = "chaos.app"


class WorkerProcess:
    """The process of one worker; the processes of its handlers are its children."""

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
            # Python imports modules from this directory first, so the worker may run another build than the rig.
            cwd=build,
        )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill the process as `kill -9` does, and wait for its end.

        The processes of the worker's handlers then end by themselves.
        """
        self._process.kill()
        self._process.wait(BOUND_S)


class WorkerPool:
    """Runs a number of workers with the rig's app."""

    def __init__(self, count: int, *, build: Path | None, log: IO[bytes] | None) -> None:
        self._count, self._build, self._log = count, build, log
        self._handlers: list[HandlerSpec] = []
        self._pool = KeeperPool(WORKER, count, self._spawn)
        self._dsn = ""

    async def start(self, dsn: str, direct_dsn: str) -> None:
        """Declare the app's handlers, and start all workers, each with its assignment."""
        self._dsn = dsn
        if not self._count:
            return
        self._handlers = [HandlerSpec.of(it) for it in describe(find_handlers([APP]).values())]
        async with Session(dsn, application="chaos app") as session:
            await declare_handlers(session, [handler.declared() for handler in self._handlers])
        await self._pool.start(direct_dsn)

    def stop(self) -> None:
        """Kill all workers."""
        self._pool.stop()

    def processes(self, word: str) -> list[psutil.Process]:
        """Find the processes of handlers by a word in the command line."""
        return [child for it in self._pool.running.values() for child in _children(it.pid) if word in title(child)]

    def has(self, holder: int) -> bool:
        """Return whether a holder is one of these workers."""
        return self._pool.has(holder)

    async def start_successor(self, holder: int) -> None:
        """Start a second worker for the slots of a running worker, and wait until the second worker serves.

        errors:  LookupError  another fault has ended the new worker before its first heartbeat
        """
        await self._pool.start_successor(holder)

    def _spawn(self, holder: int) -> KeeperProcess:
        return WorkerProcess(holder, self._handlers, self._dsn, build=self._build, log=self._log)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []
