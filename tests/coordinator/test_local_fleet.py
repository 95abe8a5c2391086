"""A coordinator is informed when and why a local process has ended, and can send requests to the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection

import psutil
import pytest

from shardclock_server.coordinator import local_fleet
from shardclock_server.coordinator.fleet import FleetUnavailable
from shardclock_server.coordinator.local_fleet import DRAIN, KeeperMain, LocalFleet, LocalKeeper
from shardclock_server.coordinator.lost_holders import DIED, LEFT
from shardclock_server.sql.cluster.holders import LOCAL_NODE, SHARD
from tests.support.factories import BOUND_S
from tests.support.program import until

CONTEXT = get_context("forkserver")


def obedient(name: str, pipe: Connection) -> None:
    assert pipe.recv() == DRAIN
    pipe.send(LEFT)


def failing(name: str, pipe: Connection) -> None:
    os._exit(3)


def fork_server() -> int:
    return int(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]


@contextmanager
def frozen_fork_server() -> Iterator[int]:
    pid = fork_server()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def until_ended(pid: int) -> None:
    # multiprocessing reaps the process
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "the fork server to end")


async def spawned(main: KeeperMain) -> LocalKeeper:
    fleet = LocalFleet(SHARD, main, CONTEXT)
    (node,) = await fleet.nodes()
    assert node == LOCAL_NODE
    name, keeper = await fleet.spawn(node)
    assert name.startswith("shard-")
    assert await fleet.found() == {}, "a coordinator finds only its own processes"
    return keeper


async def watched(keeper: LocalKeeper) -> str:
    async with asyncio.timeout(BOUND_S):
        return await keeper.watch()


async def test_a_keeper_that_is_drained_has_left() -> None:
    keeper = await spawned(obedient)

    async with asyncio.timeout(BOUND_S):
        await keeper.drain()

    assert await watched(keeper) == LEFT
    await keeper.kill()  # a kill has no effect on an ended process
    with pytest.raises(OSError, match="closed"):
        await keeper.drain()


async def test_a_keeper_that_fails_has_died() -> None:
    assert await watched(await spawned(failing)) == DIED


async def test_a_killed_keeper_has_died() -> None:
    keeper = await spawned(obedient)

    await keeper.kill()

    assert await watched(keeper) == DIED


async def test_a_frozen_keeper_can_be_killed() -> None:
    keeper = await spawned(obedient)
    assert keeper._process.pid is not None
    os.kill(keeper._process.pid, signal.SIGSTOP)

    await keeper.kill()

    assert await watched(keeper) == DIED


async def test_a_frozen_keeper_can_be_killed_after_the_death_of_its_fork_server() -> None:
    keeper, server = await spawned(obedient), fork_server()
    os.kill(server, signal.SIGKILL)
    until_ended(server)  # a server that is still ending accepts a connection, and closes it without an answer
    await (await spawned(obedient)).kill()  # the start of this process begins another fork server
    assert keeper._process.pid is not None
    os.kill(keeper._process.pid, signal.SIGSTOP)

    await keeper.kill()

    assert await watched(keeper) == DIED


async def test_a_frozen_fork_server_is_replaced_and_its_keepers_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = LocalFleet(SHARD, obedient, CONTEXT)
    _, before = await fleet.spawn(LOCAL_NODE)
    with frozen_fork_server() as frozen:
        monkeypatch.setattr(local_fleet, "ANSWER_S", 0.1)
        with pytest.raises(FleetUnavailable, match="TimeoutError"):
            await fleet.spawn(LOCAL_NODE)
        until_ended(frozen)

        monkeypatch.undo()
        _, after = await fleet.spawn(LOCAL_NODE)

    assert fork_server() != frozen
    for keeper in (before, after):
        async with asyncio.timeout(BOUND_S):
            await keeper.drain()


async def test_a_fork_server_that_has_not_answered_yet_gets_more_time_for_its_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await (await spawned(obedient)).kill()
    monkeypatch.setattr(local_fleet, "ANSWER_S", 0.1)
    fleet = LocalFleet(SHARD, obedient, CONTEXT)
    with frozen_fork_server() as frozen:
        with pytest.raises(FleetUnavailable, match="TimeoutError"):
            await fleet.spawn(LOCAL_NODE)
        assert psutil.Process(frozen).status() == psutil.STATUS_STOPPED

        monkeypatch.setattr(local_fleet, "IMPORTS_S", 0.0)
        with pytest.raises(FleetUnavailable, match="TimeoutError"):
            await fleet.spawn(LOCAL_NODE)
        until_ended(frozen)


async def test_a_fork_server_without_an_answer_does_not_change_the_state_of_a_keeper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("no listener")

    monkeypatch.setattr("multiprocessing.forkserver.connect_to_new_process", refuse)

    with pytest.raises(FleetUnavailable, match=r"no process for shard-\w+: ConnectionRefusedError: no listener"):
        await spawned(obedient)
