"""Prove that a worker makes no more runs at a time than it has places, and uses plain processes again."""

from __future__ import annotations

import pytest

from shardclock_server.workers.needs import Needs
from shardclock_server.workers.runs.ahead import AHEAD_S, ENDED_S
from shardclock_server.workers.runs.places import Places
from shardclock_server.workers.runs.process import RunProcess
from tests.support.runs import FakeRunProcess, RunProcesses

SHORT_S = AHEAD_S / 10
PLAIN, URGENT, LAST, ON_A_GPU = Needs(), Needs(priority=1), Needs(priority=4), Needs(num_gpus=1.0)


class Run:
    """One that needs a process."""

    def __init__(self, places: Places, needs: Needs = PLAIN) -> None:
        self.process: RunProcess | None = None
        self.was_used = False
        self.refused = ""
        self._places, self._needs = places, needs
        places.take(needs, self)

    def lend(self, process: RunProcess, *, was_used: bool) -> None:
        """Keep it."""
        self.process, self.was_used = process, was_used

    def refuse(self, reason: str) -> None:
        """Keep why."""
        self.refused = reason

    def end(self, *, is_well: bool = True, took_s: float | None = None) -> None:
        """Give the process back."""
        assert self.process is not None
        self._places.give_back(self._needs, self.process, is_well=is_well, took_s=took_s)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now_s


def one_waits(processes: RunProcesses) -> tuple[Places, Run, Run]:
    """Give two places: one is free and has no process, the other has a run. A second run waits for that one."""
    places = Places(2, start=processes, clock=Clock())
    first, busy = Run(places), Run(places)
    first.end(took_s=SHORT_S, is_well=False)
    return places, busy, Run(places)


def test_a_process_that_is_well_is_lent_again_to_a_run_with_the_same_needs() -> None:
    places = Places(2, start=RunProcesses())

    first = Run(places)
    assert not first.was_used
    assert places.room == 1
    first.end()

    second, urgent = Run(places), Run(places, URGENT)
    assert (second.process, second.was_used) == (first.process, True)
    assert urgent.process is not first.process, "a process only ever gets nicer"


def test_the_process_that_made_the_last_run_makes_the_next() -> None:
    places = Places(3, start=RunProcesses())
    runs = [Run(places) for _ in range(3)]
    for number in (1, 0, 2):
        runs[number].end()

    again = [Run(places) for _ in range(3)]

    assert [it.process for it in again] == [runs[number].process for number in (2, 0, 1)]


def test_one_that_is_not_well_or_that_reserves_something_is_ended() -> None:
    processes = RunProcesses()
    places = Places(2, start=processes)

    Run(places).end(is_well=False)
    Run(places, ON_A_GPU).end()

    assert [process.killed for _, process in processes.started] == [True, True]
    assert [needs for needs, _ in processes.started] == [PLAIN, ON_A_GPU]


def test_runs_that_reserve_something_have_places_of_their_own() -> None:
    places = Places(2, start=RunProcesses())
    waiting = [Run(places, ON_A_GPU) for _ in range(2)]

    assert (places.room, places.room_reserving) == (2, 0)
    Run(places)
    waiting[0].end()
    assert (places.room, places.room_reserving) == (1, 1)


def test_a_process_that_can_not_be_started_takes_up_no_place() -> None:
    def refuse(_: Needs) -> FakeRunProcess:
        raise ValueError("GPUs must be whole numbers")

    places = Places(1, start=refuse)
    for needs in (PLAIN, ON_A_GPU):
        with pytest.raises(ValueError, match="whole numbers"):
            Run(places, needs)

    assert (places.room, places.room_reserving) == (1, 1)


def test_there_are_never_more_processes_than_places() -> None:
    processes = RunProcesses()
    places = Places(2, start=processes)
    for needs in (PLAIN, URGENT):
        Run(places, needs).end()

    Run(places, LAST)

    assert [process.killed for _, process in processes.started] == [True, False, False]
    Run(places, ON_A_GPU)
    places.end()
    assert [process.killed for _, process in processes.started] == [True, True, False, False], (
        "what is lent is its run's"
    )


def test_what_is_begun_ahead_of_the_places_gets_the_process_of_the_run_before() -> None:
    clock = Clock()
    places = Places(1, start=RunProcesses(), clock=clock)
    for _ in range(2):
        Run(places).end(took_s=SHORT_S)
    assert (places.ahead, places.room, places.room_reserving) == (2, 3, 1)

    first, second, third = (Run(places) for _ in range(3))
    assert [it.process is None for it in (first, second, third)] == [False, True, True]
    assert places.room == 0
    process = first.process
    first.end()

    assert (second.process, second.was_used, third.process) == (process, True, None)
    clock.now_s += 2 * ENDED_S
    assert (places.ahead, places.room) == (0, 0), "there are more than there may be"
    second.end()
    assert third.process is process


def test_a_short_run_wakes_no_idle_process_while_another_is_busy_unless_it_must_hurry() -> None:
    processes = RunProcesses()
    places = Places(2, start=processes, clock=Clock())
    first, second = Run(places), Run(places)
    first.end(took_s=SHORT_S)
    third, fourth = Run(places), Run(places)
    assert third.process is None
    assert places.room == 0, "two places, and one ahead"

    places.hurry(fourth)
    assert (third.process, fourth.process) == (None, first.process)
    places.hurry(third)
    assert third.process is None, "there is no place"
    second.end(took_s=SHORT_S)
    assert third.process is second.process
    places.hurry(third)
    assert len(processes.started) == 2


@pytest.mark.parametrize("most", [1, 2])
def test_a_run_that_reserves_something_leaves_its_place_to_no_run_that_waits(most: int) -> None:
    places = Places(most, start=RunProcesses(), clock=Clock())
    Run(places).end(took_s=SHORT_S)
    second, third, special = Run(places), Run(places), Run(places, ON_A_GPU)

    special.end()

    assert (third.refused, third.process) == ("", None)
    second.end(took_s=SHORT_S)
    assert third.process is second.process


def test_no_run_overtakes_one_that_waits() -> None:
    clock = Clock()
    places = Places(4, start=RunProcesses(), clock=clock)
    _lasts, short = Run(places), Run(places)
    short.end(took_s=SHORT_S)
    first = Run(places)
    assert (first.process, places.room) == (None, 3)

    clock.now_s += 2 * ENDED_S
    later = [Run(places) for _ in range(3)]

    assert first.process is short.process
    assert [it.process is not None for it in later] == [True, True, False]


def test_who_waits_when_the_worker_ends_gets_no_process_any_more() -> None:
    processes = RunProcesses()
    places, _, third = one_waits(processes)

    places.end()
    places.hurry(third)

    assert third.process is None
    assert len(processes.started) == 2


def test_a_run_that_hurries_hears_that_no_process_can_be_started() -> None:
    processes = RunProcesses()
    places, second, third = one_waits(processes)

    def refuse(_: Needs) -> bool:
        raise ValueError("no more processes")

    processes.fits = refuse
    places.hurry(third)

    assert third.refused == "its process can't be started: ValueError: no more processes"
    assert places.room == 2
    second.end()


@pytest.mark.parametrize("took_s", [None, AHEAD_S])
def test_after_a_run_that_was_not_called_or_took_longer_none_is_begun_ahead(took_s: float | None) -> None:
    places = Places(1, start=RunProcesses())
    Run(places).end(took_s=took_s)

    assert places.room == 1


def test_where_none_may_be_ahead_none_is() -> None:
    places = Places(1, start=RunProcesses(), ahead_max=0)
    Run(places).end(took_s=SHORT_S)

    assert places.room == 1


def test_short_runs_that_reserve_something_let_none_be_begun_ahead() -> None:
    places = Places(1, start=RunProcesses())
    Run(places, ON_A_GPU).end(took_s=SHORT_S)

    assert (places.room, places.room_reserving) == (1, 1)


@pytest.mark.parametrize(("in_vain", "ahead"), [(True, 0), (False, 1)])
def test_one_that_gives_up_has_no_turn_and_if_it_waited_in_vain_none_follows_it(in_vain: bool, ahead: int) -> None:
    places = Places(1, start=RunProcesses(), clock=Clock())
    Run(places).end(took_s=SHORT_S)
    busy, waiting = Run(places), Run(places)

    places.give_up(waiting, in_vain=in_vain)
    assert places.ahead == ahead
    busy.end()

    assert waiting.process is None
    assert places.room == 1 + ahead


def test_those_that_wait_hear_that_no_process_can_be_started() -> None:
    started = RunProcesses()

    def once(needs: Needs) -> FakeRunProcess:
        if started.started:
            raise ValueError("no node is there")
        return started(needs)

    places = Places(1, start=once, clock=Clock())
    for _ in range(2):
        Run(places).end(took_s=SHORT_S)
    first, *waiting = (Run(places) for _ in range(3))

    first.end(is_well=False)

    assert [it.refused for it in waiting] == ["its process can't be started: ValueError: no node is there"] * 2
    assert places.room == 3
