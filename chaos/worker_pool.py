"""Run workers as plain processes, so that a run tests only their claims and leases."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO

import psutil

from chaos.keeper_pool import KeeperPool
from shardclock import describe, find_handlers
from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.deliveries.handlers import declare_handlers
from shardclock_server.sql.session import Session
from shardclock_server.workers.handler import HandlerSpec
from tests.support.processes import title
from tests.support.separate_keeper import SeparateKeeper

APP = "chaos.app"


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

    def _spawn(self, holder: int) -> SeparateKeeper:
        described = json.dumps([asdict(spec) for spec in self._handlers])
        words = (APP, described, self._dsn)
        return SeparateKeeper(holder, "tests.support.worker_process", *words, build=self._build, log=self._log)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []
