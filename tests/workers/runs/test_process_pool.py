"""A worker does not execute more concurrent runs than its limit, and reuses the processes of plain runs."""

from __future__ import annotations

import pytest

from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.prefetch import COUNTED_S, SHORT_RUN_S
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.process_pool import ProcessPool
from tests.support.clock import Clock
from tests.support.runs import FakeRunProcess, RunProcesses

SHORT_S = SHORT_RUN_S / 10
PLAIN, URGENT, LAST, ON_A_GPU = (
    RunResources(),
    RunResources(priority=1),
    RunResources(priority=4),
    RunResources(num_gpus=1.0),
)


class WaitingRun:
    """A run that needs a process."""

    def __init__(self, pool: ProcessPool, needs: RunResources = PLAIN) -> None:
        self.process: RunProcess | None = None
        self.was_used = False
        self.refused = ""
        self._pool, self._needs = pool, needs
        pool.acquire(needs, self)

    def receive(self, process: RunProcess, *, was_used: bool) -> None:
        self.process, self.was_used = process, was_used

    def refuse(self, reason: str) -> None:
        """Record the reason why the run received no process."""
        self.refused = reason

    def end(self, *, is_reusable: bool = True, took_s: float | None = None) -> None:
        assert self.process is not None
        self._pool.release(self._needs, self.process, is_reusable=is_reusable, took_s=took_s)


def one_waits(processes: RunProcesses) -> tuple[ProcessPool, WaitingRun, WaitingRun]:
    """Return a pool with two processes (a run uses one of them), and a second run that waits for a process."""
    pool = ProcessPool(2, start=processes, clock=Clock())
    first, busy = WaitingRun(pool), WaitingRun(pool)
    first.end(took_s=SHORT_S, is_reusable=False)
    return pool, busy, WaitingRun(pool)


def test_a_process_without_a_fault_is_used_again_for_a_run_with_the_same_needs() -> None:
    pool = ProcessPool(2, start=RunProcesses())

    first = WaitingRun(pool)
    assert not first.was_used
    assert pool.capacity == 1
    first.end()

    second, urgent = WaitingRun(pool), WaitingRun(pool, URGENT)
    assert (second.process, second.was_used) == (first.process, True)
    assert urgent.process is not first.process, "the priority of a process only ever gets lower"


def test_the_process_that_made_the_last_run_makes_the_next() -> None:
    pool = ProcessPool(3, start=RunProcesses())
    runs = [WaitingRun(pool) for _ in range(3)]
    for number in (1, 0, 2):
        runs[number].end()

    again = [WaitingRun(pool) for _ in range(3)]

    assert [it.process for it in again] == [runs[number].process for number in (2, 0, 1)]


def test_a_process_with_a_fault_or_with_reserved_resources_is_killed() -> None:
    processes = RunProcesses()
    pool = ProcessPool(2, start=processes)

    WaitingRun(pool).end(is_reusable=False)
    WaitingRun(pool, ON_A_GPU).end()

    assert [process.killed for _, process in processes.started] == [True, True]
    assert [needs for needs, _ in processes.started] == [PLAIN, ON_A_GPU]


def test_runs_that_reserve_resources_have_separate_slots() -> None:
    pool = ProcessPool(2, start=RunProcesses())
    waiting = [WaitingRun(pool, ON_A_GPU) for _ in range(2)]

    assert (pool.capacity, pool.reserving_capacity) == (2, 0)
    WaitingRun(pool)
    waiting[0].end()
    assert (pool.capacity, pool.reserving_capacity) == (1, 1)


def test_a_process_that_can_t_be_started_uses_no_place() -> None:
    def refuse(_: RunResources) -> FakeRunProcess:
        raise ValueError("GPUs must be whole numbers")

    pool = ProcessPool(1, start=refuse)
    for needs in (PLAIN, ON_A_GPU):
        with pytest.raises(ValueError, match="whole numbers"):
            WaitingRun(pool, needs)

    assert (pool.capacity, pool.reserving_capacity) == (1, 1)


def test_there_are_never_more_processes_than_places() -> None:
    processes = RunProcesses()
    pool = ProcessPool(2, start=processes)
    for needs in (PLAIN, URGENT):
        WaitingRun(pool, needs).end()

    WaitingRun(pool, LAST)

    assert [process.killed for _, process in processes.started] == [True, False, False]
    WaitingRun(pool, ON_A_GPU)
    pool.end()
    assert [process.killed for _, process in processes.started] == [True, True, False, False], (
        "the run keeps its process"
    )


def test_a_prefetched_run_gets_the_process_of_the_previous_run() -> None:
    clock = Clock()
    pool = ProcessPool(1, start=RunProcesses(), clock=clock)
    for _ in range(2):
        WaitingRun(pool).end(took_s=SHORT_S)
    assert (pool.prefetch, pool.capacity, pool.reserving_capacity) == (2, 3, 1)

    first, second, third = (WaitingRun(pool) for _ in range(3))
    assert [it.process is None for it in (first, second, third)] == [False, True, True]
    assert pool.capacity == 0
    process = first.process
    first.end()

    assert (second.process, second.was_used, third.process) == (process, True, None)
    clock.now_s += 2 * COUNTED_S
    assert (pool.prefetch, pool.capacity) == (0, 0), "there are more than there may be"
    second.end()
    assert third.process is process


def test_a_short_run_wakes_no_idle_process_while_another_is_busy_unless_it_must_hurry() -> None:
    processes = RunProcesses()
    pool = ProcessPool(2, start=processes, clock=Clock())
    first, second = WaitingRun(pool), WaitingRun(pool)
    first.end(took_s=SHORT_S)
    third, fourth = WaitingRun(pool), WaitingRun(pool)
    assert third.process is None
    assert pool.capacity == 0, "two places, and one ahead"

    pool.hurry(fourth)
    assert (third.process, fourth.process) == (None, first.process)
    pool.hurry(third)
    assert third.process is None, "there is no place"
    second.end(took_s=SHORT_S)
    assert third.process is second.process
    pool.hurry(third)
    assert len(processes.started) == 2


@pytest.mark.parametrize("most", [1, 2])
def test_the_slot_of_a_run_that_reserves_resources_is_given_to_no_waiting_run(most: int) -> None:
    pool = ProcessPool(most, start=RunProcesses(), clock=Clock())
    WaitingRun(pool).end(took_s=SHORT_S)
    second, third, special = WaitingRun(pool), WaitingRun(pool), WaitingRun(pool, ON_A_GPU)

    special.end()

    assert (third.refused, third.process) == ("", None)
    second.end(took_s=SHORT_S)
    assert third.process is second.process


def test_no_run_overtakes_a_waiting_run() -> None:
    clock = Clock()
    pool = ProcessPool(4, start=RunProcesses(), clock=clock)
    _lasts, short = WaitingRun(pool), WaitingRun(pool)
    short.end(took_s=SHORT_S)
    first = WaitingRun(pool)
    assert (first.process, pool.capacity) == (None, 3)

    clock.now_s += 2 * COUNTED_S
    later = [WaitingRun(pool) for _ in range(3)]

    assert first.process is short.process
    assert [it.process is not None for it in later] == [True, True, False]


def test_a_waiting_run_gets_no_process_after_the_end_of_the_pool() -> None:
    processes = RunProcesses()
    pool, _, third = one_waits(processes)

    pool.end()
    pool.hurry(third)

    assert third.process is None
    assert len(processes.started) == 2


def test_a_hurried_run_gets_the_reason_of_a_failed_start() -> None:
    processes = RunProcesses()
    pool, second, third = one_waits(processes)

    def refuse(_: RunResources) -> bool:
        raise ValueError("no more processes")

    processes.fits = refuse
    pool.hurry(third)

    assert third.refused == "its process can't be started: ValueError: no more processes"
    assert pool.capacity == 2
    second.end()


@pytest.mark.parametrize(
    ("prefetch_max", "needs", "took_s"),
    [(1, PLAIN, None), (1, PLAIN, SHORT_RUN_S), (0, PLAIN, SHORT_S), (1, ON_A_GPU, SHORT_S)],
    ids=["the last run was not called", "it was long", "the limit is 0", "it reserved resources"],
)
def test_no_run_begins_ahead(prefetch_max: int, needs: RunResources, took_s: float | None) -> None:
    pool = ProcessPool(1, start=RunProcesses(), prefetch_max=prefetch_max, clock=Clock())
    WaitingRun(pool, needs).end(took_s=took_s)

    assert (pool.capacity, pool.reserving_capacity) == (1, 1)


@pytest.mark.parametrize(("timed_out", "ahead"), [(True, 0), (False, 1)])
def test_a_run_that_gives_up_gets_no_process_and_after_a_timeout_no_run_begins_ahead(
    timed_out: bool, ahead: int
) -> None:
    pool = ProcessPool(1, start=RunProcesses(), clock=Clock())
    WaitingRun(pool).end(took_s=SHORT_S)
    busy, waiting = WaitingRun(pool), WaitingRun(pool)

    pool.withdraw(waiting, timed_out=timed_out)
    assert pool.prefetch == ahead
    busy.end()

    assert waiting.process is None
    assert pool.capacity == 1 + ahead


def test_waiting_runs_get_the_reason_of_a_failed_start() -> None:
    started = RunProcesses()

    def once(needs: RunResources) -> FakeRunProcess:
        if started.started:
            raise ValueError("no node is there")
        return started(needs)

    pool = ProcessPool(1, start=once, clock=Clock())
    for _ in range(2):
        WaitingRun(pool).end(took_s=SHORT_S)
    first, *waiting = (WaitingRun(pool) for _ in range(3))

    first.end(is_reusable=False)

    assert [it.refused for it in waiting] == ["its process can't be started: ValueError: no node is there"] * 2
    assert pool.capacity == 3
