"""Fake processes of runs that record their calls, and answer by the test's function."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from shardclock import CallOutcome, Canceled, Completed, ReportSnapshot, RunOrder
from shardclock_server.jobs.spec import JobSpec
from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.sql.cluster.holders import WORKER, Incarnation
from shardclock_server.sql.jobs.runs import BegunRun
from shardclock_server.workers.dependencies import Dependencies, any_node_fits
from shardclock_server.workers.machine import Machine
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.user_process import NotCalled, ProcessDied
from shardclock_server.workers.worker import Worker
from tests.support.handlers import FakeProcesses
from tests.support.roles import as_role
from tests.support.waiting import eventually
from tests.support.working import assigned

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
QUICK = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02)


def begun_run(**fields: Any) -> BegunRun:
    return BegunRun("refresh", "app:refresh", 7, 1, 1, 1, NOON, None, "{}", timedelta(0))._replace(**fields)


def completes(_: RunOrder) -> CallOutcome:
    """Complete the run without any work."""
    return Completed()


@dataclass
class FakeRunProcess:
    """A fake process that executes runs with the test's function `play`, after the gate is open.

    The process ends a run on request only if it `heeds` requests.
    """

    play: Callable[[RunOrder], CallOutcome] = completes
    gate: asyncio.Event | None = None
    heeds: bool = True
    comes_up: bool = True
    is_slow: bool = False  # the process never starts
    may_live: bool = False  # whether the process may still run although its death was reported
    answers_polls: bool = True
    is_closed: bool = False  # the process ended between `ready` and `run`
    seen: ReportSnapshot = field(default_factory=ReportSnapshot)
    orders: list[RunOrder] = field(default_factory=list)
    of_all: list[RunOrder] = field(default_factory=list)  # all processes of a worker share this list
    lives_s: list[float] = field(default_factory=list)
    killed: bool = False
    told: asyncio.Event = field(default_factory=asyncio.Event)
    died: asyncio.Event = field(default_factory=asyncio.Event)

    async def ready(self) -> None:
        if self.is_slow:
            await self.died.wait()
        if not self.comes_up or self.killed:
            raise ProcessDied("the run's process ended: no module named app")

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, ReportSnapshot]:
        """Wait for the gate, for the request to end, or for the death of this process."""
        assert not self.killed, "a process that was killed is not called"
        if self.is_closed:
            raise NotCalled
        self.orders.append(order)
        self.of_all.append(order)
        self.lives_s.append(lives_s)
        waits = [asyncio.ensure_future(self.died.wait())]
        waits += [asyncio.ensure_future(self.gate.wait())] if self.gate else []
        waits += [asyncio.ensure_future(self.told.wait())] if self.heeds else []
        if self.gate is not None:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.died.is_set():
            raise ProcessDied("the run's process ended: exit code 9", may_live=self.may_live)
        if self.told.is_set() and self.heeds:
            self.told.clear()
            return Canceled("it ended on request"), self.seen
        return self.play(order), self.seen

    async def poll(self, *, lives_s: float) -> ReportSnapshot:
        """Return the progress that the test has set, or wait until the end of the process."""
        self.lives_s.append(lives_s)
        if not self.answers_polls:
            await self.died.wait()
            raise ProcessDied("the run's process ended: exit code 9", may_live=self.may_live)
        return self.seen

    async def cancel(self) -> None:
        self.told.set()

    def kill(self) -> None:
        self.killed = True
        self.died.set()


@dataclass
class RunProcesses:
    """Start identical fake processes; record the processes in `started`, and the requests for runs in `orders`."""

    play: Callable[[RunOrder], CallOutcome] = completes
    gate: asyncio.Event | None = None
    heeds: bool = True
    comes_up: bool = True
    answers_polls: bool = True
    fits: Callable[[RunResources], bool] = lambda _: True  # whether a node has the resources that a process needs
    started: list[tuple[RunResources, FakeRunProcess]] = field(default_factory=list)
    orders: list[RunOrder] = field(default_factory=list)

    def __call__(self, needs: RunResources) -> FakeRunProcess:
        process = FakeRunProcess(
            self.play,
            self.gate,
            heeds=self.heeds,
            comes_up=self.comes_up,
            answers_polls=self.answers_polls,
            is_slow=not self.fits(needs),
            of_all=self.orders,
        )
        self.started.append((needs, process))
        return process


@asynccontextmanager
async def running_jobs(
    dsn: str,
    start: Callable[[RunResources], FakeRunProcess],
    specs: Sequence[JobSpec],
    settings: WorkerSettings = QUICK,
    *,
    has_node: Callable[[RunResources], bool] = any_node_fits,
    machine: Machine | None = None,
) -> AsyncIterator[Worker]:
    """Run a worker with all slots and these jobs during a block, and drain the worker."""
    holder = secrets.randbits(62)
    incarnation = Incarnation(holder, WORKER, "test", "test", "test", "test", 1)
    worker = Worker(
        incarnation,
        settings,
        [],
        as_role(dsn, "shard"),
        start=FakeProcesses(),
        jobs=specs,
        start_run=start,
        dependencies=Dependencies(has_node=has_node, machine=machine),
    )
    run = asyncio.create_task(worker.run())
    try:
        await eventually(lambda: assigned(dsn, holder))
        yield worker
    finally:
        await worker.drain()
        (end,) = await asyncio.gather(run, return_exceptions=True)
        assert end is None or isinstance(end, HolderEnded)
