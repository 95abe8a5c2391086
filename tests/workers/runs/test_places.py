"""Prove that a worker makes no more runs at a time than it has places, and uses plain processes again."""

from __future__ import annotations

import pytest

from tests.support.runs import FakeRunProcess, RunProcesses
from workers.runs.needs import Needs
from workers.runs.places import Places

PLAIN, URGENT, LAST, ON_A_GPU = Needs(), Needs(priority=1), Needs(priority=4), Needs(num_gpus=1.0)


def test_a_process_that_is_well_is_lent_again_to_a_run_with_the_same_needs() -> None:
    processes = RunProcesses()
    places = Places(2, start=processes)

    first, was_used = places.take(PLAIN)
    assert not was_used
    assert places.free == 1
    places.give_back(PLAIN, first, is_well=True)

    assert places.free == 2
    assert places.take(PLAIN) == (first, True)
    assert places.take(URGENT)[0] is not first, "a process only ever gets nicer"
    assert places.free == 0


def test_one_that_is_not_well_or_that_reserves_something_is_ended() -> None:
    processes = RunProcesses()
    places = Places(2, start=processes)

    places.give_back(PLAIN, places.take(PLAIN)[0], is_well=False)
    places.give_back(ON_A_GPU, places.take(ON_A_GPU)[0], is_well=True)

    assert [process.killed for _, process in processes.started] == [True, True]
    assert [needs for needs, _ in processes.started] == [PLAIN, ON_A_GPU]


def test_runs_that_reserve_something_have_places_of_their_own() -> None:
    places = Places(2, start=RunProcesses())
    waiting = [places.take(ON_A_GPU)[0] for _ in range(2)]

    assert (places.free, places.free_reserving) == (2, 0)
    places.take(PLAIN)
    places.give_back(ON_A_GPU, waiting[0], is_well=True)
    assert (places.free, places.free_reserving) == (1, 1)


def test_a_process_that_can_not_be_started_takes_up_no_place() -> None:
    def refuse(_: Needs) -> FakeRunProcess:
        raise ValueError("GPUs must be whole numbers")

    places = Places(1, start=refuse)
    for needs in (PLAIN, ON_A_GPU):
        with pytest.raises(ValueError, match="whole numbers"):
            places.take(needs)

    assert (places.free, places.free_reserving) == (1, 1)


def test_there_are_never_more_processes_than_places() -> None:
    processes = RunProcesses()
    places = Places(2, start=processes)
    for needs in (PLAIN, URGENT):
        places.give_back(needs, places.take(needs)[0], is_well=True)

    places.take(LAST)

    assert [process.killed for _, process in processes.started] == [True, False, False]
    places.take(ON_A_GPU)
    places.end()
    assert [process.killed for _, process in processes.started] == [True, True, False, False], (
        "what is lent is its run's"
    )
