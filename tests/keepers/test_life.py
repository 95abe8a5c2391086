"""A keeper in an actor starts once and is watched until its end; after a failure its process also ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from shardclock_server.keepers import life
from shardclock_server.keepers.collector import COLLECT_AFTER
from shardclock_server.keepers.life import Life
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("collector")


class RecordedKeeper:
    """A keeper that works until it is drained, or fails on request."""

    def __init__(self) -> None:
        self.holder = 7
        self.runs = 0
        self.drained = asyncio.Event()
        self.fails = asyncio.Event()

    async def run(self) -> None:
        self.runs += 1
        ends = [asyncio.create_task(event.wait()) for event in (self.drained, self.fails)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if self.fails.is_set():
            raise RuntimeError("could not go on")

    async def drain(self) -> None:
        self.drained.set()


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the exit codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(life, "LEAVE_S", 0.0)
    monkeypatch.setattr("shardclock_server.keepers.life.os._exit", codes.append)
    return codes


async def test_its_process_collects_garbage_seldom_and_never_the_initial_objects() -> None:
    one = Life(RecordedKeeper())
    gc.unfreeze()
    gc.collect()
    there = len(gc.get_objects())

    one.start()

    assert gc.get_freeze_count() > 0.9 * there
    assert gc.get_threshold()[0] == COLLECT_AFTER
    await one.drain()


async def test_a_keeper_is_started_once_by_any_number_of_callers() -> None:
    keeper = RecordedKeeper()
    one = Life(keeper)

    assert [one.start(), one.start()] == [7, 7]
    watching = asyncio.create_task(one.watch())
    await asyncio.sleep(0)
    assert await one.drain() == 7

    async with asyncio.timeout(5):
        await watching
    assert keeper.runs == 1


async def test_a_watcher_that_gives_up_does_not_end_the_keeper() -> None:
    keeper = RecordedKeeper()
    one = Life(keeper)
    watching = asyncio.create_task(one.watch())
    await asyncio.sleep(0)

    watching.cancel()
    await asyncio.wait([watching])

    assert await one.drain() == 7, "it still worked, and drained in order"


async def test_a_keeper_that_fails_tells_its_watcher_and_ends_its_process(exits: list[int]) -> None:
    keeper = RecordedKeeper()
    one = Life(keeper)
    watching = asyncio.create_task(one.watch())
    await asyncio.sleep(0)

    keeper.fails.set()

    with pytest.raises(RuntimeError, match="could not go on"):
        await watching
    await eventually(lambda: exits == [1])


async def test_a_drained_keeper_leaves_its_process_running(exits: list[int]) -> None:
    one = Life(RecordedKeeper())
    one.start()

    await one.drain()
    for _ in range(10):
        await asyncio.sleep(0)

    assert exits == []
