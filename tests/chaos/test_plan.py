"""Prove that a plan depends only on its seed, and has enough faults and instances of every kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from chaos.behaviours import COSTLY, QUICK, WEIGHTS
from chaos.broken_builds import TRIALS
from chaos.clusters import CLUSTERS, MODES
from chaos.fault_options import DELIVERY_FAULTS, fault_options
from chaos.faults import TYPES
from chaos.faults.partitions import PARTITIONS
from chaos.jobs.__main__ import RUNS
from chaos.plan import (
    COSTLY_S,
    ENDLESS_S,
    FIRST_FAULT_S,
    LAST_ACT_S,
    LAST_FAULT_S,
    ChangeTimer,
    CreateTimers,
    Plan,
    PlannedFault,
    draw,
)
from chaos.process_models import PROCESSES, ModelPath, NodeItem, Process
from chaos.process_plan import CLOSE_S, PlannedInstance, draw_instances
from shardclock_server.bpmn.model import read_model
from shardclock_server.bpmn.step.effects import ServiceTaskOpened, TaskOpened, TimerOpened
from tests.support.bpmn import Opened, Played

SEEDS = range(5)
MINUTE_S, TEN_MINUTES_S, HOUR_S = 60.0, 600.0, 3_600.0
CALLS_PER_S = 25.0
SCENARIOS = [Path(__file__).parent / name for name in ("test_scenarios.py", "test_partitions.py")]

# Each effect that a run must cover, and the faults that cause it.
COVERED = {
    "kill -9 of a shard": (
        "kill shard",
        "kill shard in a claim",
        "kill shard in a firing",
        "kill shard after a firing",
    ),
    "kill -9 of a raylet": ("kill raylet",),
    "kill -9 of the coordinator": ("kill coordinator", "kill local host"),
    "kill -9 of Ray's head": ("kill GCS",),
    "kill -9 of the host": ("kill host",),
    "kill -9 of up": ("kill up",),
    "kill -9 of the fork server": ("kill fork server",),
    "a frozen coordinator": ("freeze coordinator", "freeze local host"),
    "a frozen fork server": ("freeze fork server",),
    "kill -9 of one Postgres backend": ("kill backend",),
    "kill -9 of the postmaster": ("kill postmaster",),
    "an immediate stop of Postgres": ("stop Postgres at once",),
    "a fast stop of Postgres": ("stop Postgres fast",),
    "a shard frozen before a claim": ("freeze shard before a claim",),
    "a shard frozen after a claim": ("freeze shard after a claim",),
    "a shard frozen inside the transaction that fires": ("freeze shard in a firing",),
    "a shard frozen past its lease": ("freeze shard past its lease",),
    "a frozen raylet": ("freeze raylet",),
    "two live copies of a shard": ("declare a living shard dead",),
    "kill -9 of a worker": ("kill worker",),
    "kill -9 of a handler's process": ("kill handler",),
    "a frozen worker": ("freeze worker",),
    "a worker that settles its successor's delivery": ("replace a frozen worker",),
    "kill -9 of an engine": ("kill engine", "kill engine in a step"),
    "an engine frozen before it writes": ("freeze engine before a step",),
    "an engine that writes its successor's instance": ("replace a frozen engine",),
    "the network cut": ("cut shard off", "cut clients off", "cut engine off"),
    "a host's network cut": tuple(kind.name for kind in PARTITIONS),
    "the network half-open": ("half-open shard",),
    "the network slow": ("slow shard",),
    "the reply to a commit lost": (
        "lose clients' commit answers",
        "lose a firing's answer",
        "lose a claim's answer",
        "lose a step's answer",
    ),
    "too many connections": ("use up connections",),
    "a locked table": ("lock table",),
    "a reader that stays open": ("hold snapshot",),
    "a full disk": ("disk full",),
    "the database's clock an hour off": ("Postgres's clock an hour ahead", "Postgres's clock an hour back"),
    "100,000 timers in one instant": ("100,000 in one instant",),
    "twice the cluster's capacity": ("twice the capacity",),
    "poison rows": ("poison",),
}


# The faults that only one kind of cluster supports.
ONLY = {"local": {"up", "local"}, "ray": {"up", "ray"}, "standby": {"up", "ray", "local"}, "processes": {"processes"}}


@cache
def plan(seed: int, length_s: float, *, cluster: str = "ray", calls_per_s: float = CALLS_PER_S) -> Plan:
    return draw(
        seed, length_s=length_s, calls_per_s=calls_per_s, fault_options=fault_options(cluster, length_s=length_s)
    )


@cache
def drawn_faults(length_s: float, *, cluster: str = "ray") -> Sequence[Sequence[PlannedFault]]:
    """Draw the faults of a run for each seed; the runs have very few client calls."""
    return [plan(seed, length_s, cluster=cluster, calls_per_s=0.01).faults for seed in SEEDS]


def creates(of: Plan) -> list[CreateTimers]:
    return [step for step in of.steps if isinstance(step, CreateTimers)]


def test_the_same_arguments_give_the_same_plan() -> None:
    assert plan(7, MINUTE_S) == plan.__wrapped__(7, MINUTE_S)


def test_a_different_seed_gives_different_calls_and_faults() -> None:
    one, other = plan(7, MINUTE_S), plan(8, MINUTE_S)

    assert one.steps != other.steps
    assert one.faults != other.faults


@pytest.mark.parametrize("length_s", [MINUTE_S, TEN_MINUTES_S, HOUR_S])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_cluster_supports_each_of_its_fault_options(cluster: str, length_s: float) -> None:
    offered = fault_options(cluster, length_s=length_s)

    assert offered
    assert {entry.fault for entry in offered} <= TYPES.keys()
    assert {TYPES[entry.fault].only for entry in offered} <= {None, *ONLY[cluster]}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_fault_options_have_every_fault_of_a_process_that_the_cluster_starts(cluster: str) -> None:
    offered = {entry.fault for entry in fault_options(cluster, length_s=MINUTE_S)}
    parts = {kind.name for kind in TYPES.values() if kind.only in ONLY[cluster] - {"processes"}}

    assert parts - offered <= {"kill run"}, "of jobs, which have runs of their own"


def test_ten_minutes_of_deliveries_have_50_kills_of_each_kind() -> None:
    for seed in SEEDS:
        drawn = draw(seed, length_s=TEN_MINUTES_S, calls_per_s=0.01, fault_options=DELIVERY_FAULTS).faults
        kinds = Counter(it.fault for it in drawn)

        assert kinds.keys() == {entry.fault for entry in DELIVERY_FAULTS}
        assert min(kinds.values()) >= 50


@pytest.mark.parametrize("of", RUNS)
def test_a_run_of_jobs_has_50_kills_of_each_kind(of: str) -> None:
    for seed in SEEDS:
        drawn = draw(
            seed, length_s=RUNS[of].minutes * 60, calls_per_s=0.01, fault_options=RUNS[of].fault_options
        ).faults
        kills = Counter(RUNS[of].kinds[it.fault] for it in drawn)

        assert kills.keys() == set(RUNS[of].kinds.values())
        assert min(kills.values()) >= 50


def test_each_required_effect_has_a_drawn_fault_or_a_scenario() -> None:
    offered = {entry.fault for cluster in CLUSTERS for entry in fault_options(cluster, length_s=TEN_MINUTES_S)}
    offered |= {fault for trial in TRIALS.values() for fault in trial.faults}
    scenarios = "".join(path.read_text() for path in SCENARIOS)
    faults = {fault for names in COVERED.values() for fault in names}

    assert faults <= TYPES.keys()
    assert [fault for fault in sorted(faults) if fault not in offered and f'"{fault}"' not in scenarios] == []


def test_each_fault_has_a_required_effect() -> None:
    others = {"put a shard's clock ahead", "kill run"}

    assert TYPES.keys() - {fault for names in COVERED.values() for fault in names} == others


@pytest.mark.parametrize(
    ("fault", "least_s"), [("stop Postgres at once", 60.0), ("lock table", 30.0), ("hold snapshot", 60.0)]
)
def test_a_run_of_minutes_has_time_for_the_long_faults(fault: str, least_s: float) -> None:
    for drawn in drawn_faults(TEN_MINUTES_S):
        assert max(it.for_s for it in drawn if it.fault == fault) >= least_s


@pytest.mark.parametrize("cluster", MODES)
def test_ten_minutes_have_enough_faults(cluster: str) -> None:
    for drawn in drawn_faults(TEN_MINUTES_S, cluster=cluster):
        kinds = Counter(TYPES[it.fault].kind for it in drawn)

        assert sum(it.fault.startswith("kill") for it in drawn) >= 30
        assert kinds["freeze"] >= 5
        assert sum(it.fault.startswith(("cut", "half-open")) for it in drawn) >= 5, (
            "lost answers and delays beside them"
        )


@pytest.mark.parametrize("cluster", MODES)
def test_an_hour_has_every_fault_and_200_kills(cluster: str) -> None:
    offered = {entry.fault for entry in fault_options(cluster, length_s=HOUR_S)}
    for drawn in drawn_faults(HOUR_S, cluster=cluster):
        assert sum(it.fault.startswith("kill") for it in drawn) >= 200
        assert {it.fault for it in drawn} == offered


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_minute_has_five_faults(cluster: str) -> None:
    assert min(len(drawn) for drawn in drawn_faults(MINUTE_S, cluster=cluster)) >= 5


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("length_s", [MINUTE_S, TEN_MINUTES_S])
def test_faults_leave_the_begin_and_the_end_of_a_run_quiet(length_s: float, cluster: str) -> None:
    for drawn in drawn_faults(length_s, cluster=cluster):
        assert all(it.at_s >= FIRST_FAULT_S and it.at_s + it.for_s <= length_s - LAST_FAULT_S for it in drawn)
        assert all(one.at_s < next_one.at_s for one, next_one in pairwise(drawn))


def test_a_change_concerns_an_earlier_timer() -> None:
    for seed in SEEDS:
        drawn = plan(seed, MINUTE_S)
        for number, step in enumerate(drawn.steps):
            if isinstance(step, ChangeTimer):
                of = drawn.steps[step.of]

                assert step.of < number
                assert isinstance(of, CreateTimers)
                assert of.at_s <= step.at_s
                assert of.timers[0].name is not None or not step.by_name


def test_each_endless_rule_is_cancelled_soon_and_again_at_the_end() -> None:
    for seed in SEEDS:
        drawn = plan(seed, MINUTE_S)
        endless = {
            number: step.at_s
            for number, step in enumerate(drawn.steps)
            if isinstance(step, CreateTimers) and (step.timers[0].rule or "R").startswith("*")
        }
        cancelled = {
            (step.of, step.at_s)
            for step in drawn.steps
            if isinstance(step, ChangeTimer) and step.verb == "cancel" and step.by_name
        }

        assert endless
        assert {(number, MINUTE_S) for number in endless} <= cancelled
        assert {
            (number, at_s + ENDLESS_S) for number, at_s in endless.items() if at_s + ENDLESS_S < MINUTE_S - 1
        } <= cancelled


@cache
def aimed(seed: int) -> Plan:
    """Draw a minute at ten times the usual load; some of the timers have a target."""
    return draw(seed, length_s=MINUTE_S, calls_per_s=10 * CALLS_PER_S, fault_options=(), targeted=0.05)


@pytest.mark.exhaustive
def test_a_minute_has_each_action_and_few_that_cost_a_process() -> None:
    for seed in SEEDS[:5]:
        acts = Counter(timer.behaviour for step in creates(aimed(seed)) for timer in step.timers if timer.behaviour)

        assert acts.keys() >= WEIGHTS.keys()
        assert 1 <= sum(acts[behaviour] for behaviour in COSTLY) <= 1 + MINUTE_S / COSTLY_S


def test_schedules_and_timers_at_the_end_of_the_load_have_quick_actions() -> None:
    for step in creates(aimed(1)):
        for timer in step.timers:
            if timer.behaviour and (timer.rule or step.at_s + timer.due_in_s > MINUTE_S - LAST_ACT_S):
                assert timer.behaviour in QUICK


AN_HOUR_S = 3_600.0
KINDS = {TaskOpened: "task", TimerOpened: "timer", ServiceTaskOpened: "job"}
PATHS = [(process, path) for process in PROCESSES.values() for path in process.paths]


@pytest.fixture(scope="module")
def begins() -> list[PlannedInstance]:
    return draw_instances(random.Random(7), length_s=AN_HOUR_S, instances_per_s=5.0)


def test_the_same_seed_starts_the_same_instances_at_any_load() -> None:
    few, many = (
        draw(7, length_s=60.0, calls_per_s=n, fault_options=(), instances_per_s=5.0).instances for n in (1.0, 20.0)
    )

    assert few == many
    assert len(few) > 200


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


def test_each_start_has_a_unique_name_within_its_tenant(begins: list[PlannedInstance]) -> None:
    assert len({(begin.tenant_id, begin.key) for begin in begins}) == len(begins)
    assert len({begin.key for begin in begins}) < len(begins), "tenants use the same names"


def test_instances_have_every_process_and_every_kind_of_client(begins: list[PlannedInstance]) -> None:
    assert abs(len(begins) - 5.0 * AN_HOUR_S) < 1_000
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
