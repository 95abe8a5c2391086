"""Which instances clients start is drawn whole from the seed; and the ways beside each model are those of the model."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from chaos.menus import menu
from chaos.models import PROCESSES, Made, Process, Way
from chaos.plan import draw
from chaos.process_plan import CLOSE_S, Begin, draw_begins
from shardclock_server.bpmn.model import read_model
from shardclock_server.bpmn.step.effects import ServiceTaskOpened, TaskOpened, TimerOpened
from tests.support.bpmn import Opened, Played

HOUR_S = 3_600.0
KINDS = {TaskOpened: "task", TimerOpened: "timer", ServiceTaskOpened: "job"}
WAYS = [(process, way) for process in PROCESSES.values() for way in process.ways]


@pytest.fixture(scope="module")
def begins() -> list[Begin]:
    """Draw those of an hour."""
    return draw_begins(random.Random(7), length_s=HOUR_S, instances_per_s=5.0)


def test_the_same_seed_starts_the_same_instances_whatever_timers_there_are() -> None:
    few, many = (draw(7, length_s=60.0, calls_per_s=n, menu=(), instances_per_s=5.0).begins for n in (1.0, 20.0))

    assert few == many
    assert len(few) > 200


def test_a_run_starts_none_unless_it_is_asked_to() -> None:
    assert draw(7, length_s=60.0, calls_per_s=1.0, menu=menu(ray=True, length_s=60.0)).begins == []


def test_a_run_of_timers_alone_breaks_no_worker() -> None:
    offered = {entry.fault for entry in menu(ray=True, length_s=60.0, workers=False)}
    missing = {entry.fault for entry in menu(ray=True, length_s=60.0)} - offered
    assert missing == {"kill worker", "kill handler", "freeze worker"}


def test_a_run_without_instances_breaks_no_engine() -> None:
    offered = {entry.fault for entry in menu(ray=True, length_s=60.0, engines=False)}
    missing = {entry.fault for entry in menu(ray=True, length_s=60.0)} - offered
    assert missing == {
        "kill engine", "kill engine in a step", "freeze engine before a step", "cut engine off", "lose a step's answer",
    }  # fmt: skip


def test_each_start_has_a_name_of_its_own_within_its_tenant(begins: list[Begin]) -> None:
    assert len({(begin.tenant_id, begin.key) for begin in begins}) == len(begins)
    assert len({begin.key for begin in begins}) < len(begins), "tenants use the same names"


def test_instances_are_of_every_sort(begins: list[Begin]) -> None:
    assert abs(len(begins) - 5.0 * HOUR_S) < 1_000
    assert set(Counter(begin.process_id for begin in begins)) == set(PROCESSES)
    raced = [it for it in begins if it.drive_s is not None and abs(it.drive_s - it.due_s) <= CLOSE_S]
    assert len(raced) > len(begins) / 4
    for sort in (
        [it for it in begins if it.stop_s is not None],
        [it for it in begins if it.again_s is not None],
        [it for it in begins if it.drive_s is None],
    ):
        assert len(begins) / 50 < len(sort) < len(begins) / 3


def test_only_what_its_timer_ends_is_left_alone(begins: list[Begin]) -> None:
    assert {it.process_id for it in begins if it.drive_s is None} == {"chaos-race"}


@pytest.mark.parametrize(("process", "way"), WAYS, ids=[way.name for _, way in WAYS])
def test_a_way_is_one_that_the_engine_s_own_step_can_go(process: Process, way: Way) -> None:
    (definition,) = read_model(process.model)
    played = Played(definition, {"n": 0, "act": "return", "due": "PT1S", "order": "order 1"})
    made = _made(played.open)

    for kind, node_id in way.takes:
        assert played.complete(node_id) if kind == "completed" else played.happen(node_id)
        made |= _made(played.open)

    history = [it for it in played.history if not it.startswith(process.process_id)]
    assert sorted(it[:-1] for it in history if it.endswith("-")) == sorted(way.left)
    assert [it[:-1] for it in history if it.endswith("x")] == list(way.terminated)
    assert made == set(way.made)
    assert played.result.variables["n"] == way.counted
    for late, earlier in way.after.items():
        for early in earlier:
            done = f"{early}{'x' if early in way.terminated else '-'}"
            assert history.index(done) < history.index(f"{late}+")


def _made(opened: dict[tuple[int, str], Opened]) -> set[Made]:
    return {Made(KINDS[type(it)], node_id) for (_, node_id), it in opened.items() if type(it) in KINDS}
