"""Prove that the planned instances depend only on the seed, and that the listed paths of each model are possible."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from chaos.fault_options import fault_options
from chaos.plan import draw
from chaos.process_models import PROCESSES, ModelPath, NodeItem, Process
from chaos.process_plan import CLOSE_S, PlannedInstance, draw_instances
from shardclock_server.bpmn.model import read_model
from shardclock_server.bpmn.step.effects import ServiceTaskOpened, TaskOpened, TimerOpened
from tests.support.bpmn import Opened, Played

HOUR_S = 3_600.0
KINDS = {TaskOpened: "task", TimerOpened: "timer", ServiceTaskOpened: "job"}
PATHS = [(process, path) for process in PROCESSES.values() for path in process.paths]


@pytest.fixture(scope="module")
def begins() -> list[PlannedInstance]:
    return draw_instances(random.Random(7), length_s=HOUR_S, instances_per_s=5.0)


def test_the_same_seed_starts_the_same_instances_at_any_load() -> None:
    few, many = (
        draw(7, length_s=60.0, calls_per_s=n, fault_options=(), instances_per_s=5.0).instances for n in (1.0, 20.0)
    )

    assert few == many
    assert len(few) > 200


def test_a_run_starts_no_instances_by_default() -> None:
    assert draw(7, length_s=60.0, calls_per_s=1.0, fault_options=fault_options("ray", length_s=60.0)).instances == []


def test_a_run_without_workers_has_no_faults_of_workers() -> None:
    offered = {entry.fault for entry in fault_options("ray", length_s=60.0, workers=False)}
    missing = {entry.fault for entry in fault_options("ray", length_s=60.0)} - offered
    assert missing == {"kill worker", "kill handler", "freeze worker"}


def test_a_run_without_engines_has_no_faults_of_engines() -> None:
    offered = {entry.fault for entry in fault_options("ray", length_s=60.0, engines=False)}
    missing = {entry.fault for entry in fault_options("ray", length_s=60.0)} - offered
    assert missing == {
        "kill engine", "kill engine in a step", "freeze engine before a step", "cut engine off", "lose a step's answer",
    }  # fmt: skip


def test_each_start_has_a_name_of_its_own_within_its_tenant(begins: list[PlannedInstance]) -> None:
    assert len({(begin.tenant_id, begin.key) for begin in begins}) == len(begins)
    assert len({begin.key for begin in begins}) < len(begins), "tenants use the same names"


def test_instances_have_every_process_and_every_kind_of_client(begins: list[PlannedInstance]) -> None:
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


def test_only_an_instance_with_a_boundary_timer_is_left_alone(begins: list[PlannedInstance]) -> None:
    assert {it.process_id for it in begins if it.drive_s is None} == {"chaos-race"}


@pytest.mark.parametrize(("process", "path"), PATHS, ids=[path.name for _, path in PATHS])
def test_the_engine_s_step_can_follow_each_path(process: Process, path: ModelPath) -> None:
    (definition,) = read_model(process.model)
    played = Played(definition, {"n": 0, "act": "return", "due": "PT1S", "order": "order 1"})
    created = _created(played.open)

    for kind, node_id in path.takes:
        assert played.complete(node_id) if kind == "completed" else played.trigger(node_id)
        created |= _created(played.open)

    history = [it for it in played.history if not it.startswith(process.process_id)]
    assert sorted(it[:-1] for it in history if it.endswith("-")) == sorted(path.left)
    assert [it[:-1] for it in history if it.endswith("x")] == list(path.terminated)
    assert created == set(path.created)
    assert played.result.variables["n"] == path.counted
    for late, earlier in path.after.items():
        for early in earlier:
            done = f"{early}{'x' if early in path.terminated else '-'}"
            assert history.index(done) < history.index(f"{late}+")


def _created(opened: dict[tuple[int, str], Opened]) -> set[NodeItem]:
    return {NodeItem(KINDS[type(it)], node_id) for (_, node_id), it in opened.items() if type(it) in KINDS}
