"""A keeper's loop runs turns until it is stopped, retries a failed turn with growing pauses, and leaves no task."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from shardclock_server.keepers import loops
from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.keepers.loops import Loops, pause

RETRY_S, RETRY_MAX_S = 0.1, 1.0


def loops_of(failed: list[str] | None = None) -> Loops:
    counted = [] if failed is None else failed
    return Loops(retry_s=RETRY_S, retry_max_s=RETRY_MAX_S, failed=counted.append, log=structlog.get_logger())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses of a loop between turns, and don't wait."""
    waited: list[float] = []

    async def record(pause_s: float, _: asyncio.Event) -> None:
        waited.append(pause_s)
        await asyncio.sleep(0)

    monkeypatch.setattr(loops, "pause", record)
    return waited


async def test_a_turn_returns_the_pause_until_the_next(pauses: list[float]) -> None:
    it, turns = loops_of(), iter([0.5, 0.25])

    async def turn() -> float:
        wait_s = next(turns, None)
        if wait_s is None:
            it.stopping.set()
        return wait_s or 0.0

    await it.until_stopped("claims", turn, asyncio.Event())

    assert pauses == [0.5, 0.25, 0.0]


async def test_a_failing_loop_doubles_its_pause_up_to_a_limit(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock.backoff.random.uniform", lambda _, most: most)
    failed: list[str] = []
    it = loops_of(failed)

    async def turn() -> float:
        if len(failed) == 5:
            it.stopping.set()
            return 0.0
        raise ValueError("no")

    await it.until_stopped("fires", turn, asyncio.Event())

    assert failed == ["fires"] * 5
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 0.0]


async def test_a_request_for_an_earlier_turn_does_not_end_the_pause_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended_by: list[asyncio.Event] = []
    it, sooner = loops_of(), asyncio.Event()

    async def pause(_: float, event: asyncio.Event) -> None:
        ended_by.append(event)

    async def turn() -> float:
        if len(ended_by) == 2:
            it.stopping.set()
        if len(ended_by) == 1:
            raise ValueError("no")
        return 0.5

    monkeypatch.setattr(loops, "pause", pause)
    await it.until_stopped("claims", turn, sooner)

    assert len(ended_by) == 3
    assert [event is sooner for event in ended_by] == [True, False, True]


async def test_a_loop_that_succeeds_again_ends_the_waits_of_the_other_failed_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = loops_of()
    calls: list[str] = []

    async def pause(_: float, event: asyncio.Event) -> None:
        await (event.wait() if len(calls) == 1 else asyncio.sleep(0))

    async def claim() -> float:
        calls.append("claim")
        if "beat" not in calls:
            raise ValueError("no")
        it.stopping.set()
        return 0.0

    async def beat() -> float:
        calls.append("beat")
        if calls.count("beat") == 1:
            raise ValueError("no")
        return 0.0

    monkeypatch.setattr(loops, "pause", pause)
    async with asyncio.timeout(10.0):
        await asyncio.gather(
            it.until_stopped("claims", claim, asyncio.Event()), it.until_stopped("beats", beat, asyncio.Event())
        )

    assert calls[:4] == ["claim", "beat", "beat", "claim"]


async def test_a_stop_ends_the_wait_after_a_failure() -> None:
    it = Loops(retry_s=60.0, retry_max_s=60.0, failed=lambda _: it.stopping.set(), log=structlog.get_logger())
    ended: list[str] = []

    async def fail() -> float:
        raise ValueError("no")

    async def claims() -> None:
        await it.until_stopped("claims", fail, asyncio.Event())
        ended.append("claims")

    await it.run({"claims": claims()}, stop=lambda: None)

    assert ended == ["claims"], "the loop was not cancelled"


async def test_waits_after_failures_differ_so_that_keepers_do_not_retry_together(pauses: list[float]) -> None:
    failed: list[str] = []
    it = loops_of(failed)

    async def turn() -> float:
        if len(failed) == 100:
            it.stopping.set()
        raise ValueError("no")

    await it.until_stopped("fires", turn, asyncio.Event())

    at_the_limit = pauses[5:]
    assert all(RETRY_MAX_S / 2 <= it <= RETRY_MAX_S for it in at_the_limit)
    assert len(set(at_the_limit)) > 50


async def test_an_ended_holder_ends_its_loop() -> None:
    async def turn() -> float:
        raise HolderEnded("ended")

    with pytest.raises(HolderEnded):
        await loops_of().until_stopped("beats", turn, asyncio.Event())


async def test_when_one_loop_fails_the_others_are_asked_to_end_and_a_stuck_one_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "DRAIN_S", 0.05)
    ended: list[str] = []
    asked = asyncio.Event()

    async def fails() -> None:
        raise HolderEnded("ended")

    async def ends() -> None:
        await asked.wait()
        ended.append("in order")

    async def is_stuck() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(HolderEnded):
        await loops_of().run({"a": fails(), "b": ends(), "c": is_stuck()}, stop=asked.set)

    assert ended == ["in order", "cancelled"]


async def test_a_stop_waits_for_a_statement_in_flight_no_longer_than_a_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "DRAIN_S", 0.05)
    it, in_flight = loops_of(), asyncio.Event()

    async def takes_long() -> float:
        in_flight.set()
        await asyncio.Event().wait()
        return 0.0

    running = asyncio.create_task(
        it.run({"claims": it.until_stopped("claims", takes_long, asyncio.Event())}, stop=it.stopping.set)
    )
    await in_flight.wait()
    it.stopping.set()

    async with asyncio.timeout(5):
        await running


async def test_an_event_ends_a_pause_at_once() -> None:
    sooner = asyncio.Event()
    waiting = asyncio.create_task(pause(3600.0, sooner))
    await asyncio.sleep(0)

    sooner.set()

    async with asyncio.timeout(5):
        await waiting
