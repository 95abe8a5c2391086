"""Prove that faults find the processes on which all keepers depend, and notice their replacement."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from chaos import nemesis
from chaos.faults.fault import FaultType, Hit, NothingToBreak
from chaos.faults.heads import fork_server, replaced
from chaos.plan import Plan, PlannedFault
from chaos.sandbox import Keeper, Sandbox
from tests.support.local_cluster import FORK_SERVER, HOST
from tests.support.processes import kill, title
from tests.support.program import until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
WITH_CHILD = "import subprocess, sys; subprocess.run(sys.argv[2:])"
SHARDS = [Keeper(1, 101, 0), Keeper(2, 102, 1)]


@contextmanager
def running(*command: str) -> Iterator[psutil.Process]:
    """Run a program during a block, then end the program and its children."""
    with subprocess.Popen(command) as started:
        process = psutil.Process(started.pid)
        try:
            yield process
        finally:
            kill([*process.children(), process])


def sandbox_with(*processes: psutil.Process) -> Sandbox:
    cluster = SimpleNamespace(processes=lambda word: [it for it in processes if word in title(it)])
    return cast("Sandbox", SimpleNamespace(cluster=cluster))


def test_a_keeper_that_survives_its_host_is_not_mistaken_for_the_fork_server() -> None:
    with (
        running(*SLEEP, FORK_SERVER) as keeper,
        running(sys.executable, "-c", WITH_CHILD, HOST, *SLEEP, FORK_SERVER) as host,
    ):
        (child,) = until(host.children, "the child of the host")

        assert fork_server(sandbox_with(keeper, child, host), random.Random(1)) == child


def test_a_keeper_without_a_host_is_not_a_target() -> None:
    with running(*SLEEP, FORK_SERVER) as keeper, pytest.raises(NothingToBreak, match="local_host"):
        fork_server(sandbox_with(keeper), random.Random(1))


@pytest.mark.parametrize(
    ("now", "are_replaced"),
    [
        ([Keeper(3, 103, 0), Keeper(4, 104, 1)], True),
        ([Keeper(3, 103, 0)], False),
        ([Keeper(2, 102, 0), Keeper(3, 103, 1)], False),
    ],
)
def test_lost_shards_are_replaced_when_as_many_others_serve(now: list[Keeper], are_replaced: bool) -> None:
    assert replaced(SHARDS, now, lambda _: True) == are_replaced


@pytest.mark.parametrize("led", [True, False])
async def test_a_coordinator_that_stood_by_excuses_no_lateness(led: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(*_: object) -> Hit:
        return Hit(led=led)

    kind = FaultType("kill it", "head", act, leaderless=True)
    monkeypatch.setattr(nemesis, "TYPES", {kind.name: kind})
    sandbox = cast("Sandbox", SimpleNamespace(cluster=SimpleNamespace(takeover_s=2.0)))
    breaking = nemesis.Nemesis(sandbox, Plan(1, 1.0, (), [PlannedFault(0.0, kind.name, 0.0)]))

    await breaking.run()

    (fault,) = breaking.faults
    assert (fault.disturbs, fault.leaderless) == (led, led)


def test_shards_that_were_not_lost_may_continue() -> None:
    assert replaced(SHARDS, SHARDS, lambda it: it.is_local)
