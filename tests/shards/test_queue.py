"""The queue returns the soonest timer first, and wakes the waiting task at the latest on the due date of this timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.shards.queue import STARTS_PER_S, TimerQueue
from shardclock_server.timers.model import ClaimedTimer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BOUND_S = 5.0
TURNS = 20  # After this number of turns of the event loop, all ready callbacks have run.


def timer(
    timer_key: int, due_s: float, *, request_number: int = 0, starts_job: bool = False, tenant_id: str | None = None
) -> ClaimedTimer:
    due_date = EPOCH + timedelta(seconds=due_s)
    return ClaimedTimer(
        timer_key, due_date, None, "UTC", "fire_once", None, None, 0, 1, 1, starts_job, tenant_id, 7, request_number
    )


def keys(timers: list[ClaimedTimer]) -> list[int]:
    return [each.timer_key for each in timers]


@asynccontextmanager
async def waiting(queue: TimerQueue, now_s: Callable[[], float] = lambda: 0.0) -> AsyncIterator[asyncio.Task[None]]:
    waiter = asyncio.create_task(queue.until_due(now_s))
    try:
        await let_run()
        yield waiter
    finally:
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)


async def let_run() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def test_starts_of_jobs_that_are_due_one_right_after_the_other_fire_together() -> None:
    queue = TimerQueue()
    starts = [timer(key, 100.001 + key / 1_000, starts_job=True) for key in range(10)]
    queue.add([*starts, timer(99, 100.002)])

    assert keys(queue.pop_due(100.012, 100)) == [99], "no other timer is delayed"
    assert queue.soonest_s() == 100.015625
    assert keys(queue.pop_due(100.015625, 100)) == list(range(10))


def test_a_start_of_a_job_that_is_due_at_a_full_second_fires_at_this_second() -> None:
    queue = TimerQueue()
    queue.add([timer(1, 1_795_867_349, starts_job=True)])

    assert queue.soonest_s() == 1_795_867_349


@given(st.integers(min_value=0, max_value=4_000_000_000_000_000))
def test_a_start_of_a_job_fires_soon_and_never_early(due_us: int) -> None:
    queue = TimerQueue()
    start = timer(1, 0, starts_job=True)
    start = replace(start, due_date=EPOCH + timedelta(microseconds=due_us))
    queue.add([start])

    soonest_s = queue.soonest_s()
    assert soonest_s is not None
    assert 0 <= soonest_s - start.due_date.timestamp() < 1 / STARTS_PER_S


def test_the_queue_gives_no_more_timers_than_the_limit_and_keeps_the_other_timers() -> None:
    queue = TimerQueue()
    queue.add(timer(key, key) for key in range(10))

    assert keys(queue.pop_due(100, 3)) == [0, 1, 2]
    assert keys(queue.pop_due(100, 100)) == [3, 4, 5, 6, 7, 8, 9]
    assert queue.pop_due(100, 100) == []


def test_a_tenant_s_flood_of_schedules_delays_no_plain_timer_and_no_other_tenant_s_schedule() -> None:
    queue = TimerQueue()
    queue.add(timer(key, 1, tenant_id="flood") for key in range(1_000))
    queue.add(timer(key, 50) for key in range(2_000, 2_010))
    queue.add(timer(key, 60, tenant_id=f"t{key}") for key in range(3_000, 3_005))

    first = keys(queue.pop_due(100, 20))

    assert first[::2] == list(range(2_000, 2_010)), "every other turn is a plain timer's"
    assert [key for key in first if key >= 3_000] == list(range(3_000, 3_005))
    assert sum(key < 1_000 for key in first) == 5
    assert len(queue) == 1_000 - 5
    assert keys(queue.pop_due(100, 2_000)) == list(range(5, 1_000)), "the rest fires as fast as it can"


async def test_the_waiter_continues_at_once_while_timers_are_due() -> None:
    queue = TimerQueue()
    queue.add([timer(1, 10), timer(2, 10), timer(3, 1_000)])
    queue.pop_due(10, 1)

    async with waiting(queue, lambda: 10.0) as waiter:
        assert waiter.done()


@pytest.mark.parametrize("due_s", [5, 15, 25])
def test_a_due_timer_that_is_leased_again_before_its_turn_is_given_once(due_s: float) -> None:
    queue = TimerQueue()
    queue.add([timer(1, 10), timer(2, 10), timer(3, 10)])
    queue.pop_due(10, 1)

    queue.add([timer(2, due_s), timer(3, due_s), timer(3, 10)])

    at_20 = sorted(keys(queue.pop_due(20, 10)))
    assert at_20 == ([3] if due_s > 20 else [2, 3]), "no timer fires before its new due date"
    assert sorted(at_20 + keys(queue.pop_due(30, 10) + queue.pop_due(30, 10))) == [2, 3]
    assert len(queue) == 0


@pytest.mark.parametrize(("older_s", "newer_s"), [(10, 20), (20, 10)], ids=["moved later", "moved earlier"])
def test_the_answer_of_an_older_statement_never_replaces_the_answer_of_a_newer_statement(
    older_s: float, newer_s: float
) -> None:
    older, newer = timer(1, older_s, request_number=1), timer(1, newer_s, request_number=2)

    for order in ([older, newer], [newer, older], [older, newer, older]):
        queue = TimerQueue()
        for each in order:
            queue.add([each])
        assert queue.pop_due(30, 10) == [newer]


def test_a_deferred_timer_is_due_again_later() -> None:
    queue = TimerQueue()

    queue.add([timer(1, 10)], not_before_s=10.05)
    queue.add([timer(2, 30)], not_before_s=10.05)

    assert queue.pop_due(10.04, 10) == []
    assert keys(queue.pop_due(10.05, 10)) == [1]
    assert queue.soonest_s() == 30, "it never moves a due date earlier"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50) | st.none()), max_size=200))
def test_the_queue_is_equal_to_a_sorted_map_after_any_operations(steps: list[tuple[int, int | None]]) -> None:
    queue, known = TimerQueue(), dict[int, int]()

    for key, due_s in steps:
        if due_s is None:
            due = [(at, held) for held, at in known.items() if at <= key * 10]
            given_keys = keys(queue.pop_due(key * 10, 1_000))
            assert sorted(given_keys) == sorted(held for _, held in due)
            assert [known[held] for held in given_keys] == sorted(at for at, _ in due)
            known = {held: at for held, at in known.items() if at > key * 10}
        else:
            queue.add([timer(key, due_s)])
            known[key] = due_s
        assert len(queue) == len(known)
        assert queue.soonest_s() == min(known.values(), default=None)


def test_stale_entries_are_bounded_however_often_timers_are_leased_again() -> None:
    queue = TimerQueue()

    for lease in range(200):
        queue.add(timer(key, 1_000 + lease - key) for key in range(100))

    assert len(queue) == 100
    assert len(queue._heap) <= 2_000
    assert keys(queue.pop_due(10_000, 1_000)) == list(reversed(range(100)))


def test_a_repeated_lease_adds_no_entry() -> None:
    queue = TimerQueue()

    for _ in range(200):
        queue.add([timer(1, 10)], not_before_s=20)

    assert len(queue._heap) == 1


async def test_the_queue_waits_until_the_soonest_timer_is_due() -> None:
    queue, started = TimerQueue(), time.monotonic()
    queue.add([timer(1, 0.05), timer(2, 3_600)])

    async with asyncio.timeout(BOUND_S):
        await queue.until_due(lambda: 0.0)

    assert time.monotonic() - started >= 0.05


async def test_a_loop_with_overdue_timers_lets_other_tasks_run() -> None:
    queue, turns = TimerQueue(), 0
    queue.add([timer(1, 10)])

    async def bystander() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(bystander())
    for _ in range(10):
        await queue.until_due(lambda: 10.0)
    other.cancel()

    assert turns >= 9


@pytest.mark.parametrize(
    ("act", "wakes"),
    [
        (lambda queue: queue.add([timer(2, 3_601), timer(3, 3_600)]), False),
        (lambda queue: queue.add([timer(2, 10)], not_before_s=3_700), False),
        (lambda queue: queue.add([timer(2, 3_599)]), True),
        (TimerQueue.wake, True),
    ],
    ids=["later timers", "a timer put off past the soonest", "an earlier timer", "a wake"],
)
async def test_only_an_earlier_timer_or_a_wake_ends_the_wait(act: Callable[[TimerQueue], None], *, wakes: bool) -> None:
    queue = TimerQueue()
    queue.add([timer(1, 3_600)])

    async with waiting(queue) as waiter:
        act(queue)
        await let_run()
        assert waiter.done() == wakes


async def test_the_first_timer_wakes_a_waiter_at_an_empty_queue() -> None:
    queue = TimerQueue()

    async with waiting(queue) as waiter:
        assert not waiter.done()
        queue.add([])
        await let_run()
        assert not waiter.done()
        queue.add([timer(1, 3_600)])
        await let_run()
        assert waiter.done()


async def test_a_wait_leaves_no_alarm_behind() -> None:
    queue = TimerQueue()
    queue.add([timer(1, 0.02)])
    async with waiting(queue):
        queue.wake()

    queue.pop_due(1, 1)
    async with waiting(queue) as waiter:
        queue._sooner.clear()
        finished, _ = await asyncio.wait([waiter], timeout=0.1)
        assert not finished, "the first wait's alarm rang for the second"
