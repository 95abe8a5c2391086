"""Faults that need a machine, a Ray or a cluster of their own: the same rig and the same judge."""

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
from chaos.clusters import Cluster, Processes, until_serving
from chaos.faults.machine import FAKETIME, a_clock_of_its_own, a_disk_of_its_own
from chaos.history import Bounds, History, HolderWritten
from chaos.plan import Break, Plan, draw
from chaos.running import run
from chaos.stage import Prepare, Stage, stage_for
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.session import Session
from tests.support.rays import RayOfNodes

CALLS_PER_S = 20.0
HEAD = "__internal_head__"  # among the resources of Ray's first node
NODES = 3
# Health checks of a Ray that notices a frozen node in seconds, as FACTS of Ray recommend for a cluster like this.
IMPATIENT = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}

pytestmark = [pytest.mark.slow, pytest.mark.chaos]


async def _run(
    cluster: Cluster,
    breaks: list[Break],
    *,
    length_s: float,
    targeted: float = 0.0,
    instances_per_s: float = 0.0,
    set_up: Callable[[Stage], None] = lambda _: None,
    **stage: Any,
) -> tuple[History, Verdict]:
    load = draw(
        1,
        length_s=length_s,
        calls_per_s=CALLS_PER_S,
        menu=(),
        targeted=targeted,
        instances_per_s=instances_per_s,
    )
    plan = Plan(load.seed, length_s, load.steps, breaks, load.begins)
    async with stage_for(cluster, **stage) as set_stage:
        set_up(set_stage)
        history = await run(plan, set_stage, bounds=Bounds(), tell=lambda _: None)
    assert len(history.faults) == len(breaks), "each was made"
    exercised = EXERCISED - ({"D1"} if targeted or instances_per_s else {"S10", "D1"})
    return history, judge(history, exercised=exercised | (PROCESSES if instances_per_s else frozenset()))


def _told(verdict: Verdict) -> list[str]:
    return [*verdict.reasons, *(row for finding in verdict.findings for row in finding.shown)]


def _needs_root(prepare: Prepare, *, what: str) -> Prepare:
    if os.geteuid() != 0:
        pytest.skip(f"{what} needs root")
    return prepare


async def test_a_clock_set_an_hour_ahead_and_back_loses_doubles_and_hurries_nothing() -> None:
    if not FAKETIME.exists():
        pytest.skip(f"no libfaketime here ({FAKETIME}): `make faketime` installs it")
    prepare = _needs_root(a_clock_of_its_own, what="the clock of a Postgres that runs as another user")
    breaks = [
        Break(3.0, "Postgres's clock an hour ahead", 3.0),
        Break(9.0, "Postgres's clock an hour back", 3.0),
        Break(15.0, "kill shard", 0.0),
    ]

    _, verdict = await _run(Processes(3), breaks, length_s=20.0, prepare=prepare)

    assert verdict.status == "valid", _told(verdict)


async def test_a_disk_that_is_full_for_a_while_loses_nothing() -> None:
    if shutil.which("mount") is None or not _can_mount():
        pytest.skip("a small file system of its own needs root and mount(8)")
    settings = ["max_wal_size = 64MB", "min_wal_size = 32MB", "shared_buffers = 32MB"]

    history, verdict = await _run(
        Processes(2), [Break(4.0, "disk full", 5.0)], length_s=15.0, prepare=a_disk_of_its_own, settings=settings
    )

    assert verdict.status == "valid", _told(verdict)
    (full,) = history.faults
    assert any(call.outcome == "unknown" and full.began_at < call.began_at < full.ended_at for call in history.calls), (
        "it was felt"
    )


async def test_a_load_of_twice_the_capacity_piles_up_and_drains_with_bounded_memory() -> None:
    # 20 timers a claim, and 40 ms on the way: two shards fire at most a thousand a second. Twice that comes.
    cluster = _Weighed(2, claim_batch=20, fire_batch=20, queue_max=1_000)

    history, verdict = await _run(
        cluster, [Break(4.0, "twice the capacity", 12.0)], length_s=22.0, set_up=_slow_down_the_shards
    )

    assert verdict.status == "valid", _told(verdict)
    (flood,) = history.faults
    assert flood.ended_at - flood.began_at > 18.0, "it was more than the cluster could fire"
    assert cluster.grown_mib < 20, "what waits, waits in the table"


def _slow_down_the_shards(stage: Stage) -> None:
    stage.proxy.delay(lambda link: link.application.startswith("shardclock shard"), 0.02)


class _Weighed(Processes):
    """Shards whose memory is watched: by how much one of them has grown since all were there."""

    grown_mib = 0.0

    async def start(self, dsn: str, direct_dsn: str) -> None:
        await super().start(dsn, direct_dsn)
        self._tasks.append(asyncio.create_task(self._weigh()))

    async def _weigh(self) -> None:
        await asyncio.sleep(3.0)  # the load's first seconds: what a shard needs at all
        shards = [psutil.Process(shard.pid) for shard in self._running.values()]
        before = [shard.memory_info().rss for shard in shards]
        while True:
            grown = [shard.memory_info().rss - rss for shard, rss in zip(shards, before, strict=True)]
            self.grown_mib = max(self.grown_mib, *(rss / 2**20 for rss in grown))
            await asyncio.sleep(0.5)


async def test_a_worker_that_goes_on_after_its_end_settles_nothing_that_its_successor_has_in_hand() -> None:
    breaks = [
        Break(5.0, "replace a frozen worker", 2.0),
        Break(12.0, "kill worker", 0.0),
        Break(15.0, "kill handler", 0.0),
        Break(17.0, "freeze worker", 3.0),
        Break(22.0, "replace a frozen worker", 2.0),
    ]

    history, verdict = await _run(Processes(2, workers=2), breaks, length_s=35.0, targeted=0.3)

    assert verdict.status == "valid", _told(verdict)
    called = {(call.timer_key, call.attempt) for call in history.attempts}
    assert len(called) < len(history.attempts), "some were called again, whose first call nobody had settled"


async def test_an_engine_that_goes_on_after_its_end_writes_nothing_that_its_successor_has_advanced() -> None:
    breaks = [
        Break(5.0, "replace a frozen engine", 2.0),
        Break(11.0, "kill engine in a step", 0.0),
        Break(15.0, "lose a step's answer", 0.0),
        Break(17.0, "freeze engine before a step", 3.0),
        Break(22.0, "replace a frozen engine", 2.0),
    ]

    cluster = Processes(2, workers=1, engines=2)
    history, verdict = await _run(cluster, breaks, length_s=35.0, instances_per_s=10.0)

    assert verdict.status == "valid", _told(verdict)
    replaced = [fault for fault in history.faults if fault.name == "replace a frozen engine"]
    assert any(fault.detail["exact"] for fault in replaced), "it was stopped with a batch that it had not written yet"


@pytest.mark.ray
async def test_a_frozen_raylet_leads_to_two_living_copies_of_a_shard_and_to_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in IMPATIENT.items():
        monkeypatch.setenv(name, value)
    cluster = _Nodes()

    history, verdict = await _run(cluster, [Break(4.0, "freeze raylet", 9.0)], length_s=20.0)

    assert verdict.status == "valid", _told(verdict)
    (frozen,) = history.faults
    replaced = [it for it in _ended(history) if frozen.began_at < it.ended_at.timestamp() < frozen.ended_at]
    assert replaced, "somebody took the place of the shard on that node"
    assert all(it.ended_at - it.seen_at < timedelta(seconds=1) for it in replaced), "which lived, and went on firing"


def _ended(history: History) -> list[_Ended]:
    """List the holders that were ended, as they were left."""
    rows = [it for commit in history.commits for it in commit.changes if isinstance(it, HolderWritten)]
    return [_Ended(it.seen_at, it.ended_at) for it in rows if it.ended_at is not None and it.seen_at is not None]


class _Ended(NamedTuple):
    seen_at: datetime
    ended_at: datetime


class _Nodes:
    """A Ray of three nodes, of which two carry a shard each."""

    name = "a Ray of three nodes"
    takeover_s = 2.0

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
        """Find those of the nodes beside the head: what is broken there is not the end of Ray."""
        return [it for it in self._rays.processes(word) if HEAD not in " ".join(it.cmdline())]

    async def stand_in(self, holder: int) -> None:
        raise NotImplementedError


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as place:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", place], check=True)
    return True
