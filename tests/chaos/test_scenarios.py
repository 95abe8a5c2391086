"""Inject the faults that need a separate machine, Ray or cluster; the judge of all chaos runs judges them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psutil
import pytest

from chaos.checker import EXERCISED, PROCESSES, Verdict, judge
from chaos.clusters import Cluster, ProcessCluster, until_serving
from chaos.faults.machine import FAKETIME, a_clock_of_its_own, a_disk_of_its_own
from chaos.history import Bounds, History
from chaos.history.changes import HolderWritten
from chaos.history.faults import WHOLE_S
from chaos.plan import Plan, PlannedFault, draw
from chaos.running import run
from chaos.sandbox import Prepare, Sandbox, sandbox_for
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.session import Session
from tests.support.rays import RayOfNodes

CALLS_PER_S = 20.0
HEAD = "__internal_head__"  # a resource that only Ray's first node has
NODES = 3
# With these health checks Ray notices a frozen node within seconds.
IMPATIENT = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}

pytestmark = [pytest.mark.slow, pytest.mark.chaos]


async def _run(
    cluster: Cluster,
    faults: list[PlannedFault],
    *,
    length_s: float,
    targeted: float = 0.0,
    instances_per_s: float = 0.0,
    set_up: Callable[[Sandbox], None] = lambda _: None,
    **sandbox: Any,
) -> tuple[History, Verdict]:
    load = draw(
        1,
        length_s=length_s,
        calls_per_s=CALLS_PER_S,
        fault_options=(),
        targeted=targeted,
        instances_per_s=instances_per_s,
    )
    plan = Plan(load.seed, length_s, load.steps, faults, load.instances)
    async with sandbox_for(cluster, **sandbox) as set_stage:
        set_up(set_stage)
        history = await run(plan, set_stage, bounds=Bounds(), tell=lambda _: None)
    assert len(history.faults) == len(faults), "each fault was injected"
    exercised = EXERCISED - ({"D1"} if targeted or instances_per_s else {"S10", "D1"})
    return history, judge(history, exercised=exercised | (PROCESSES if instances_per_s else frozenset()))


def _told(verdict: Verdict) -> list[str]:
    return [*verdict.reasons, *(row for finding in verdict.findings for row in finding.shown)]


def _needs_root(prepare: Prepare, *, what: str) -> Prepare:
    if os.geteuid() != 0:
        pytest.skip(f"{what} needs root")
    return prepare


async def test_a_clock_set_an_hour_ahead_and_back_breaks_no_promise() -> None:
    if not FAKETIME.exists():
        pytest.skip(f"no libfaketime here ({FAKETIME}): `make faketime` installs it")
    prepare = _needs_root(a_clock_of_its_own, what="the clock of a Postgres that runs as another user")
    faults = [
        PlannedFault(3.0, "Postgres's clock an hour ahead", 3.0),
        PlannedFault(9.0, "Postgres's clock an hour back", 3.0),
        PlannedFault(15.0, "kill shard", 0.0),
    ]

    _, verdict = await _run(ProcessCluster(3), faults, length_s=20.0, prepare=prepare)

    assert verdict.status == "valid", _told(verdict)


async def test_a_full_disk_loses_no_timer() -> None:
    if shutil.which("mount") is None or not _can_mount():
        pytest.skip("a small file system of its own needs root and mount(8)")
    settings = ["max_wal_size = 64MB", "min_wal_size = 32MB", "shared_buffers = 32MB"]

    history, verdict = await _run(
        ProcessCluster(2),
        [PlannedFault(4.0, "disk full", 5.0)],
        length_s=15.0,
        prepare=a_disk_of_its_own,
        settings=settings,
    )

    assert verdict.status == "valid", _told(verdict)
    (full,) = history.faults
    assert any(call.outcome == "unknown" and full.began_at < call.began_at < full.ended_at for call in history.calls), (
        "the fault had an effect"
    )


async def test_a_load_of_twice_the_capacity_piles_up_and_drains_with_bounded_memory() -> None:
    # With 20 timers per claim and a round trip of 40 ms, two shards fire at most 1,000 timers a second. The load is
    # 2,000 timers a second.
    cluster = _Weighed(2, claim_batch=20, fire_batch=20, queue_max=1_000)

    history, verdict = await _run(
        cluster, [PlannedFault(4.0, "twice the capacity", 12.0)], length_s=22.0, set_up=_slow_down_the_shards
    )

    assert verdict.status == "valid", _told(verdict)
    (flood,) = history.faults
    assert flood.ended_at - flood.began_at > 18.0, "the load exceeded the capacity"
    assert cluster.grown_mib < 20, "waiting timers stay in the table"


def _slow_down_the_shards(sandbox: Sandbox) -> None:
    sandbox.proxy.delay(lambda link: link.application.startswith("shardclock shard"), 0.02)


class _Weighed(ProcessCluster):
    """Run shards, and measure the growth of their memory after the start."""

    grown_mib = 0.0

    async def start(self, dsn: str, direct_dsn: str) -> None:
        await super().start(dsn, direct_dsn)
        self._tasks.append(asyncio.create_task(self._weigh()))

    async def _weigh(self) -> None:
        await asyncio.sleep(3.0)  # after this time a shard has allocated the memory that it always needs
        shards = [psutil.Process(shard.pid) for shard in self._running.values()]
        before = [shard.memory_info().rss for shard in shards]
        while True:
            grown = [shard.memory_info().rss - rss for shard, rss in zip(shards, before, strict=True)]
            self.grown_mib = max(self.grown_mib, *(rss / 2**20 for rss in grown))
            await asyncio.sleep(0.5)


async def test_a_replaced_worker_settles_no_delivery_of_its_successor() -> None:
    faults = [
        PlannedFault(5.0, "replace a frozen worker", 2.0),
        PlannedFault(12.0, "kill worker", 0.0),
        PlannedFault(15.0, "kill handler", 0.0),
        PlannedFault(17.0, "freeze worker", 3.0),
        PlannedFault(22.0, "replace a frozen worker", 2.0),
    ]

    history, verdict = await _run(ProcessCluster(2, workers=2), faults, length_s=35.0, targeted=0.3)

    assert verdict.status == "valid", _told(verdict)
    called = {(call.timer_key, call.attempt) for call in history.attempts}
    assert len(called) < len(history.attempts), "some calls were repeated, because the first one was not settled"


async def test_a_replaced_engine_writes_no_instance_of_its_successor() -> None:
    faults = [
        PlannedFault(5.0, "replace a frozen engine", 2.0),
        PlannedFault(11.0, "kill engine in a step", 0.0),
        PlannedFault(15.0, "lose a step's answer", 0.0),
        PlannedFault(17.0, "freeze engine before a step", 3.0),
        PlannedFault(22.0, "replace a frozen engine", 2.0),
    ]

    cluster = ProcessCluster(2, workers=1, engines=2)
    history, verdict = await _run(cluster, faults, length_s=35.0, instances_per_s=10.0)

    assert verdict.status == "valid", _told(verdict)
    replaced = [fault for fault in history.faults if fault.name == "replace a frozen engine"]
    assert any(fault.detail["exact"] for fault in replaced), "it was stopped with a batch that it had not written yet"


@pytest.mark.ray
async def test_two_live_copies_of_a_shard_after_a_frozen_raylet_break_no_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in IMPATIENT.items():
        monkeypatch.setenv(name, value)
    cluster = _Nodes()

    history, verdict = await _run(cluster, [PlannedFault(4.0, "freeze raylet", 9.0)], length_s=20.0)

    assert verdict.status == "valid", _told(verdict)
    (frozen,) = history.faults
    replaced = [it for it in _ended(history) if frozen.began_at < it.ended_at.timestamp() < frozen.ended_at]
    assert replaced, "another shard replaced the one on that node"
    assert all(it.ended_at - it.seen_at < timedelta(seconds=1) for it in replaced), (
        "the replaced shard was alive and fired"
    )


def _ended(history: History) -> list[_Ended]:
    rows = [it for commit in history.commits for it in commit.changes if isinstance(it, HolderWritten)]
    return [_Ended(it.seen_at, it.ended_at) for it in rows if it.ended_at is not None and it.seen_at is not None]


class _Ended(NamedTuple):
    seen_at: datetime
    ended_at: datetime


class _Nodes:
    """Run a Ray of three nodes, two of them with a shard."""

    name = "a Ray of three nodes"
    takeover_s = 2.0
    whole_s = WHOLE_S

    async def start(self, dsn: str, direct_dsn: str) -> None:
        self._rays = await asyncio.to_thread(RayOfNodes)
        for _ in range(2):
            await self._rays.add_node()
        await self._rays.coordinate(dsn)
        async with Session(direct_dsn, application="test") as session:
            await scale(session, SHARD, NODES)
        await until_serving(direct_dsn, NODES)

    async def stop(self) -> None:
        await asyncio.to_thread(self._rays.close)

    def processes(self, word: str) -> list[psutil.Process]:
        """Find the processes of all nodes except the head; Ray survives the loss of these processes."""
        return [it for it in self._rays.processes(word) if HEAD not in " ".join(it.cmdline())]

    async def start_successor(self, holder: int) -> None:
        raise NotImplementedError

    async def restart(self, after_s: float) -> None:
        raise NotImplementedError


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as directory:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", directory], check=True)
    return True
