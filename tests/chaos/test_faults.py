"""Prove that faults do not disturb each other, and that each fault hits the named process."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import cast

import asyncpg
import psutil
import pytest

from chaos import nemesis
from chaos.clusters import ProcessCluster
from chaos.faults import postgres
from chaos.faults.fault import FaultType, Hit, NothingToBreak
from chaos.faults.flood import poison
from chaos.faults.heads import fork_server, replaced
from chaos.faults.postgres import lock_table, stop_immediate
from chaos.faults.processes import without_forks
from chaos.plan import Plan, PlannedFault
from chaos.sandbox import Keeper, Sandbox, sandbox_for
from shardclock_server.shards.firing import planning_of
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import HolderClient, value
from tests.support.local_cluster import FORK_SERVER, HOST
from tests.support.processes import kill, title
from tests.support.program import until
from tests.support.waiting import eventually

POLL_S = 0.005


class Admins:
    """A sandbox that only opens superuser connections, because the tests use nothing else."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self._dsn)
        try:
            yield connection
        finally:
            await connection.close()


@pytest.mark.exhaustive
async def test_a_server_that_one_fault_restarts_is_not_stopped_by_another_fault() -> None:
    chance = random.Random(1)
    seen_coming_up = False
    async with sandbox_for(ProcessCluster(1)) as sandbox:
        first = asyncio.create_task(stop_immediate(sandbox, chance, 0.0))
        await asyncio.sleep(POLL_S)

        while not first.done():
            seen_coming_up |= sandbox.postmaster.process() is not None
            with pytest.raises(NothingToBreak, match="Postgres is away already"):
                await stop_immediate(sandbox, chance, 0.0)
            await asyncio.sleep(POLL_S)

        await first
        assert await sandbox.answers()
    assert seen_coming_up, "a second stop came while the server started"


async def test_the_fault_of_a_table_lock_begins_at_the_request_for_the_lock(dsn: str) -> None:
    # Given a reader that stays open
    sandbox = cast("Sandbox", Admins(dsn))
    async with sandbox.admin() as reader, reader.transaction():
        await reader.fetchval("select count(*) from shardclock.timers")

        # When the fault requests its lock, and waits for the reader
        asked_s = time.time()
        locking = asyncio.create_task(lock_table(sandbox, random.Random(1), 0.0))
        await eventually(lambda: _waits_for_a_lock(dsn))
        waited_s = time.time()

    # Then the fault started with its request for the lock, because later transactions wait behind this request
    hit = await locking
    assert hit.began_at is not None
    assert asked_s <= hit.began_at <= waited_s


async def test_a_lock_behind_a_long_reader_is_given_up_soon(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "LOCK_WAIT_S", 0.05)
    sandbox = cast("Sandbox", Admins(dsn))
    async with sandbox.admin() as reader, reader.transaction():
        await reader.fetchval("select count(*) from shardclock.timers")

        hit = await lock_table(sandbox, random.Random(1), 60.0)

    assert hit.detail == {"locked": False}
    assert hit.began_at is not None, "all others waited behind it"


async def _waits_for_a_lock(dsn: str) -> bool:
    return bool(await value(dsn, "select exists (select from pg_locks where not granted)"))


def test_a_fork_of_a_process_is_not_mistaken_for_the_process() -> None:
    # Given a process, and its child with the same command line
    program = "import os, time; os.fork(); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        me = psutil.Process(parent.pid)
        try:
            deadline_s = time.monotonic() + 10.0
            while not (children := me.children()) and time.monotonic() < deadline_s:
                time.sleep(0.01)

            assert without_forks([*children, me]) == [me]
            assert without_forks(children) == children
        finally:
            kill([*children, me])


async def test_a_shard_claims_both_poisoned_schedules_and_can_not_plan_them(shard: HolderClient) -> None:
    hit = await poison(cast("Sandbox", Admins(shard.dsn)), random.Random(1), 0.0)

    claimed = (await shard.take()).claimed

    assert {it.timer_key for it in claimed} == hit.poisoned
    assert len(claimed) == 2
    for timer in claimed:
        with pytest.raises(InvalidTimer):
            planning_of(timer)


SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
WITH_CHILD = "import subprocess, sys; subprocess.run(sys.argv[2:])"
SHARDS = [Keeper(1, 101, 0), Keeper(2, 102, 1)]


@contextmanager
def running(*command: str) -> Iterator[psutil.Process]:
    """Run a program during a block; after the block, kill the program and its children."""
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
def test_lost_shards_are_replaced_when_the_same_number_of_other_shards_serves(
    now: list[Keeper], are_replaced: bool
) -> None:
    assert replaced(SHARDS, now, lambda _: True) == are_replaced


@pytest.mark.parametrize("led", [True, False])
async def test_the_loss_of_a_stand_by_coordinator_excuses_no_lateness(
    led: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
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
