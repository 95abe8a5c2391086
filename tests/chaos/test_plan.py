"""A plan is drawn whole from its seed, and breaks enough of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from chaos.acts import COSTLY, QUICK, WEIGHTS
from chaos.builds import TRIALS
from chaos.faults import TYPES
from chaos.faults.hosts import PARTITIONS
from chaos.jobs.__main__ import RUNS
from chaos.menus import DELIVERING, menu
from chaos.plan import (
    COSTLY_S,
    ENDLESS_S,
    FIRST_FAULT_S,
    LAST_ACT_S,
    LAST_FAULT_S,
    Break,
    Change,
    Create,
    Plan,
    draw,
)

SEEDS = range(5)
MINUTE_S, TEN_MINUTES_S, HOUR_S = 60.0, 600.0, 3_600.0
CALLS_PER_S = 25.0
SCENARIOS = [Path(__file__).parent / name for name in ("test_scenarios.py", "test_hosts.py")]

# All that a run must be able to break, and by which faults.
COVERED = {
    "kill -9 of a shard": (
        "kill shard",
        "kill shard in a claim",
        "kill shard in a firing",
        "kill shard after a firing",
    ),
    "kill -9 of a raylet": ("kill raylet",),
    "kill -9 of the coordinator": ("kill coordinator",),
    "kill -9 of Ray's head": ("kill GCS",),
    "kill -9 of the host": ("kill host",),
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
    "a worker that settles what its successor has in hand": ("replace a frozen worker",),
    "kill -9 of an engine": ("kill engine", "kill engine in a step"),
    "an engine frozen before it writes": ("freeze engine before a step",),
    "an engine that writes what its successor has advanced": ("replace a frozen engine",),
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
    "twice what the cluster can fire": ("twice the capacity",),
    "poison rows": ("poison",),
}


@cache
def plan(seed: int, length_s: float, *, ray: bool = True, calls_per_s: float = CALLS_PER_S) -> Plan:
    return draw(seed, length_s=length_s, calls_per_s=calls_per_s, menu=menu(ray=ray, length_s=length_s))


@cache
def breaks(length_s: float, *, ray: bool = True) -> Sequence[Sequence[Break]]:
    """Draw the faults of a run for each seed; what clients do is left out but for a call or two."""
    return [plan(seed, length_s, ray=ray, calls_per_s=0.01).breaks for seed in SEEDS]


def creates(of: Plan) -> list[Create]:
    return [step for step in of.steps if isinstance(step, Create)]


def test_the_same_arguments_give_the_same_plan() -> None:
    assert plan(7, MINUTE_S) == plan.__wrapped__(7, MINUTE_S)


def test_another_seed_gives_other_steps_and_other_faults() -> None:
    one, other = plan(7, MINUTE_S), plan(8, MINUTE_S)

    assert one.steps != other.steps
    assert one.breaks != other.breaks


@pytest.mark.parametrize("length_s", [MINUTE_S, TEN_MINUTES_S, HOUR_S])
@pytest.mark.parametrize("cluster", ["ray", "processes"])
def test_a_menu_names_faults_that_its_cluster_can_have(cluster: str, length_s: float) -> None:
    offered = menu(ray=cluster == "ray", length_s=length_s)

    assert offered
    assert {entry.fault for entry in offered} <= TYPES.keys()
    assert {TYPES[entry.fault].only for entry in offered} <= {None, cluster}


def test_ten_minutes_of_deliveries_kill_each_of_four_50_times() -> None:
    for seed in SEEDS:
        drawn = draw(seed, length_s=TEN_MINUTES_S, calls_per_s=0.01, menu=DELIVERING).breaks
        kinds = Counter(it.fault for it in drawn)

        assert kinds.keys() == {entry.fault for entry in DELIVERING}
        assert min(kinds.values()) >= 50


@pytest.mark.parametrize("of", RUNS)
def test_a_run_of_jobs_kills_each_50_times(of: str) -> None:
    for seed in SEEDS:
        drawn = draw(seed, length_s=RUNS[of].minutes * 60, calls_per_s=0.01, menu=RUNS[of].menu).breaks
        kills = Counter(RUNS[of].kinds[it.fault] for it in drawn)

        assert kills.keys() == set(RUNS[of].kinds.values())
        assert min(kills.values()) >= 50


def test_all_that_a_run_must_be_able_to_break_is_drawn_or_has_a_scenario() -> None:
    offered = {entry.fault for ray in (True, False) for entry in menu(ray=ray, length_s=TEN_MINUTES_S)}
    offered |= {fault for trial in TRIALS.values() for fault in trial.faults}
    scenarios = "".join(path.read_text() for path in SCENARIOS)
    faults = {fault for names in COVERED.values() for fault in names}

    assert faults <= TYPES.keys()
    assert [fault for fault in sorted(faults) if fault not in offered and f'"{fault}"' not in scenarios] == []


def test_every_fault_that_there_is_breaks_something_that_must_break() -> None:
    others = {"freeze coordinator", "put a shard's clock ahead", "kill run"}

    assert TYPES.keys() - {fault for names in COVERED.values() for fault in names} == others


@pytest.mark.parametrize(
    ("fault", "least_s"), [("stop Postgres at once", 60.0), ("lock table", 30.0), ("hold snapshot", 60.0)]
)
def test_a_run_of_minutes_has_time_for_the_long_faults(fault: str, least_s: float) -> None:
    for drawn in breaks(TEN_MINUTES_S):
        assert max(it.for_s for it in drawn if it.fault == fault) >= least_s


def test_ten_minutes_on_ray_break_enough() -> None:
    for drawn in breaks(TEN_MINUTES_S):
        kinds = Counter(TYPES[it.fault].kind for it in drawn)

        assert sum(it.fault.startswith("kill") for it in drawn) >= 30
        assert kinds["freeze"] >= 5
        assert sum(it.fault.startswith(("cut", "half-open")) for it in drawn) >= 5, (
            "lost answers and delays beside them"
        )


def test_an_hour_on_ray_has_every_fault_and_200_kills() -> None:
    offered = {entry.fault for entry in menu(ray=True, length_s=HOUR_S)}
    for drawn in breaks(HOUR_S):
        assert sum(it.fault.startswith("kill") for it in drawn) >= 200
        assert {it.fault for it in drawn} == offered


@pytest.mark.parametrize("ray", [True, False])
def test_a_minute_has_five_faults(ray: bool) -> None:
    assert min(len(drawn) for drawn in breaks(MINUTE_S, ray=ray)) >= 5


@pytest.mark.parametrize("ray", [True, False])
@pytest.mark.parametrize("length_s", [MINUTE_S, TEN_MINUTES_S])
def test_faults_leave_a_run_its_quiet_begin_and_end(length_s: float, ray: bool) -> None:
    for drawn in breaks(length_s, ray=ray):
        assert all(it.at_s >= FIRST_FAULT_S and it.at_s + it.for_s <= length_s - LAST_FAULT_S for it in drawn)
        assert all(one.at_s < next_one.at_s for one, next_one in pairwise(drawn))


def test_a_plan_without_a_menu_breaks_nothing() -> None:
    assert not draw(1, length_s=MINUTE_S, calls_per_s=CALLS_PER_S, menu=()).breaks


def test_a_change_is_of_something_that_was_asked_for_before() -> None:
    for seed in SEEDS:
        drawn = plan(seed, MINUTE_S)
        for number, step in enumerate(drawn.steps):
            if isinstance(step, Change):
                of = drawn.steps[step.of]

                assert step.of < number
                assert isinstance(of, Create)
                assert of.at_s <= step.at_s
                assert of.wishes[0].name is not None or not step.by_name


def test_every_rule_without_an_end_is_cancelled_so_that_the_load_stays_level_and_again_at_the_end() -> None:
    for seed in SEEDS:
        drawn = plan(seed, MINUTE_S)
        endless = {
            number: step.at_s
            for number, step in enumerate(drawn.steps)
            if isinstance(step, Create) and (step.wishes[0].rule or "R").startswith("*")
        }
        cancelled = {
            (step.of, step.at_s)
            for step in drawn.steps
            if isinstance(step, Change) and step.verb == "cancel" and step.by_name
        }

        assert endless
        assert {(number, MINUTE_S) for number in endless} <= cancelled
        assert {
            (number, at_s + ENDLESS_S) for number, at_s in endless.items() if at_s + ENDLESS_S < MINUTE_S - 1
        } <= cancelled


@cache
def aimed(seed: int) -> Plan:
    """Draw an hour's minute: many timers, of which a share has a target."""
    return draw(seed, length_s=MINUTE_S, calls_per_s=10 * CALLS_PER_S, menu=(), targeted=0.05)


@pytest.mark.exhaustive
def test_handlers_do_everything_in_a_minute_and_cost_few_processes_however_many_timers_there_are() -> None:
    for seed in SEEDS[:5]:
        acts = Counter(wish.act for step in creates(aimed(seed)) for wish in step.wishes if wish.act)

        assert acts.keys() >= WEIGHTS.keys()
        assert 1 <= sum(acts[act] for act in COSTLY) <= 1 + MINUTE_S / COSTLY_S


def test_what_is_due_at_the_end_of_the_load_and_each_schedule_is_delivered_quickly() -> None:
    for step in creates(aimed(1)):
        for wish in step.wishes:
            if wish.act and (wish.rule or step.at_s + wish.due_in_s > MINUTE_S - LAST_ACT_S):
                assert wish.act in QUICK
