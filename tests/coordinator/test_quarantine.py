"""If there are other nodes, the coordinator avoids a node on which actors fail, and longer after each failure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from shardclock_server.coordinator.quarantine import FIRST_S, MAX_S, PROVED_S, Quarantine, Start, late_starts
from shardclock_server.coordinator.takeover_plan import KeeperState, Observed, Plan, plan
from tests.support.keeper_states import holder_of, keeper, serving, silent, starting

TURN_S = 1.0
START_S = 1.0
SUSPECT_S = 1.2
SILENT_S = 5.0
STALLED_S = 5.0
GIVEN_UP_S = 30.0


def serves(node: str, *, started_s: float) -> KeeperState:
    return KeeperState(f"shard on {node}", node, holder=1, started_s=started_s)


def test_a_node_is_avoided_for_a_while_after_a_failure() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a"], now_s=100.0)

    assert quarantine.nodes(now_s=100.0 + FIRST_S - 1) == ("a",)
    assert quarantine.nodes(now_s=100.0 + FIRST_S) == ()


def test_after_each_failure_in_a_row_the_pause_is_twice_as_long_up_to_a_bound() -> None:
    quarantine, now_s, pauses = Quarantine(), 100.0, []
    for _ in range(6):
        quarantine.fail(["a"], now_s=now_s)
        pauses.append(next(s for s in itertools.count() if not quarantine.nodes(now_s=now_s + s)))
        now_s += pauses[-1]

    assert pauses == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, MAX_S, MAX_S, MAX_S]


def test_a_node_that_fails_for_days_is_tried_once_a_minute() -> None:
    quarantine, now_s = Quarantine(), 100.0
    for _ in range(2_000):
        quarantine.fail(["a"], now_s=now_s)
        now_s += MAX_S

    assert quarantine.nodes(now_s=now_s - 1) == ("a",)
    assert quarantine.nodes(now_s=now_s) == ()


def test_several_actors_that_are_lost_together_count_as_one_failure() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a", "a"], now_s=100.0)
    quarantine.fail(["a"], now_s=101.0)

    assert quarantine.nodes(now_s=100.0 + FIRST_S) == ()


def test_nodes_in_quarantine_are_listed_in_the_order_of_their_ends() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a"], now_s=102.0)
    quarantine.fail(["b"], now_s=100.0)

    assert quarantine.nodes(now_s=103.0) == ("b", "a")


def test_an_actor_that_starts_after_the_failure_ends_the_quarantine_and_the_next_quarantine_is_longer() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a"], now_s=100.0)

    quarantine.learn_nodes([serves("a", started_s=99.0)], ["a"], now_s=102.0)
    assert quarantine.nodes(now_s=102.0) == ("a",), "it was there before"
    quarantine.learn_nodes([serves("a", started_s=103.0)], ["a"], now_s=103.0)
    assert quarantine.nodes(now_s=103.0) == ()

    quarantine.fail(["a"], now_s=104.0)
    assert quarantine.nodes(now_s=104.0 + 2 * FIRST_S - 1) == ("a",)


def test_a_shard_that_has_sent_heartbeats_for_a_while_ends_the_doubt_about_its_node() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a"], now_s=100.0)
    for s in range(int(PROVED_S) + 1):
        quarantine.learn_nodes([serves("a", started_s=101.0)], ["a"], now_s=101.0 + s)

    quarantine.fail(["a"], now_s=200.0)
    assert quarantine.nodes(now_s=200.0 + FIRST_S) == ()


def test_a_shard_with_repeated_silences_does_not_end_the_doubt_about_its_node() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a"], now_s=100.0)
    shard = serves("a", started_s=101.0)
    for s in range(2 * int(PROVED_S)):
        quarantine.learn_nodes([replace(shard, suspect=s % 20 == 19)], ["a"], now_s=101.0 + s)

    quarantine.fail(["a"], now_s=200.0)
    assert quarantine.nodes(now_s=200.0 + FIRST_S) == ("a",)


def test_a_shard_from_before_the_failure_does_not_end_the_quarantine_of_its_node() -> None:
    quarantine = Quarantine()
    for now_s in (100.0, 200.0, 300.0, 400.0):
        quarantine.fail(["a"], now_s=now_s)
    for s in range(int(MAX_S)):
        quarantine.learn_nodes([serves("a", started_s=50.0)], ["a"], now_s=400.0 + s)
        assert quarantine.nodes(now_s=400.0 + s) == ("a",)

    quarantine.learn_nodes([serves("a", started_s=50.0)], ["a"], now_s=400.0 + MAX_S)
    quarantine.fail(["a"], now_s=500.0)
    assert quarantine.nodes(now_s=500.0 + FIRST_S) == ()


def test_a_node_that_is_gone_is_forgotten() -> None:
    quarantine = Quarantine()
    quarantine.fail(["a"], now_s=100.0)
    quarantine.learn_nodes([], ["b"], now_s=101.0)

    assert quarantine.nodes(now_s=101.0) == ()


def test_a_start_counts_as_late_after_its_time_limit() -> None:
    starts = {"x": Start("a", 100.0, None), "y": Start("b", 100.0, 101.0)}

    assert late_starts(starts, limit_s=5.0, now_s=105.0) == set()
    assert late_starts(starts, limit_s=5.0, now_s=105.1) == {"x"}


def test_a_start_is_not_late_while_other_starts_on_its_node_succeed() -> None:
    starts = {"x": Start("a", 100.0, None), "y": Start("a", 100.0, 103.0), "z": Start("a", 100.0, 108.0)}

    assert late_starts(starts, limit_s=5.0, now_s=113.0) == set()
    assert late_starts(starts, limit_s=5.0, now_s=113.1) == {"x"}


# The plan, with nodes that have failed and actors that are slow to start.


def stalled(name: str, node: str) -> KeeperState:
    """Make an actor that should have registered by now."""
    return KeeperState(name, node, stalled=True)


def test_a_node_in_quarantine_keeps_its_actors_and_gets_no_new_actors() -> None:
    todo = plan(3, Observed(serving("a"), ["a", "b"], quarantined=["a"]))

    assert todo.spawn == ("b", "b")
    assert not todo.retire


def test_without_a_free_node_the_node_with_the_earliest_end_of_its_quarantine_is_used() -> None:
    assert plan(1, Observed([], ["a"], quarantined=["a"])).spawn == ("a",)
    assert plan(1, Observed([], ["a", "b"], quarantined=["b", "a"])).spawn == ("b",)
    assert plan(1, Observed([], ["a"], quarantined=["b", "a"])).spawn == ("a",), "the other one is gone"


def test_a_crowded_node_keeps_its_shards_while_the_empty_one_is_in_quarantine() -> None:
    crowded = serving("a", "a")

    assert plan(2, Observed(crowded, ["a", "b"], quarantined=["b"])) == Plan(part_count=2)
    assert plan(2, Observed(crowded, ["a", "b"])).spawn == ("b",)


def test_a_stalled_start_is_retried_once_on_another_node() -> None:
    fleet = [*serving("a"), stalled("slow", "b")]
    (tried,) = plan(2, Observed(fleet, ["a", "b"])).spawn

    assert tried == "a"
    assert plan(2, Observed([*fleet, starting("new", "a")], ["a", "b"])).spawn == ()


def test_without_a_better_node_the_coordinator_waits_for_a_stalled_start() -> None:
    assert plan(2, Observed([*serving("a"), stalled("slow", "a")], ["a"])).spawn == ()
    assert plan(2, Observed([stalled("slow", "a"), stalled("slower", "b")], ["a", "b"])).spawn == ()
    assert plan(1, Observed([stalled("slow", "a")], ["a", "b"], quarantined=["a", "b"])).spawn == ()


def test_a_late_start_that_succeeds_restores_the_balance() -> None:
    crowded = serving("a", "a")

    todo = plan(2, Observed([*crowded, keeper("late", "b")], ["a", "b"]))

    assert todo.retire == (crowded[1],)
    assert todo.assign == {holder_of(keeper("late", "b")): 1, holder_of(crowded[1]): None}


def test_when_all_shards_are_suspect_a_stalled_start_is_retried_on_a_better_node() -> None:
    fleet = [silent(serving("a")[0]), stalled("slow", "b")]

    assert plan(1, Observed(fleet, ["a", "b", "c"])).spawn == ("c",)
    assert plan(1, Observed(fleet, ["a", "b"])).spawn == ()


# A cluster with nodes that are cut off.


@dataclass
class SimulatedNodes:
    """A simulated cluster with nodes that are sometimes cut off, and the observations of its coordinator."""

    wanted: int
    nodes: list[str]
    cut: set[str] = field(default_factory=set)
    now_s: float = 1000.0
    keepers: list[KeeperState] = field(default_factory=list)
    quarantine: Quarantine = field(default_factory=Quarantine)
    spawned: list[tuple[float, str]] = field(default_factory=list)
    _holders: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _born_s: dict[str, float] = field(default_factory=dict)
    _silent_since_s: dict[str, float] = field(default_factory=dict)

    def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds / TURN_S)):
            self.now_s += TURN_S
            self._live()
            self._take_turn()

    def serving(self) -> Counter[str]:
        """Count the shards that can fire, for each node."""
        return Counter(it.node_id for it in self.keepers if it.registered and it.node_id not in self.cut)

    def _live(self) -> None:
        """Move the clock: keepers on working nodes start, and keepers on cut-off nodes go silent."""
        for number, it in enumerate(self.keepers):
            if it.node_id in self.cut:
                since_s = self._silent_since_s.setdefault(it.actor_name, self.now_s)
                self.keepers[number] = replace(it, suspect=it.registered and self.now_s > since_s + SUSPECT_S)
            elif it.registered:
                self._silent_since_s.pop(it.actor_name, None)
                self.keepers[number] = replace(it, suspect=False)
            elif self._age_s(it) >= START_S:
                self.keepers[number] = replace(it, holder=next(self._holders), stalled=False, started_s=self.now_s)

    def _take_turn(self) -> None:
        silent = [
            it for it in self.keepers if it.suspect and self.now_s - self._silent_since_s[it.actor_name] > SILENT_S
        ]
        late = [it for it in self.keepers if not (it.registered or it.stalled) and self._age_s(it) > STALLED_S]
        gone = [*silent, *(it for it in self.keepers if not it.registered and self._age_s(it) > GIVEN_UP_S)]
        self.quarantine.fail([it.node_id for it in (*silent, *late)], now_s=self.now_s)
        self.keepers = [replace(it, stalled=it.stalled or it in late) for it in self.keepers if it not in gone]
        self.quarantine.learn_nodes(self.keepers, self.nodes, now_s=self.now_s)
        todo = plan(
            self.wanted, Observed(self.keepers, self.nodes, quarantined=self.quarantine.nodes(now_s=self.now_s))
        )
        self.keepers = [it for it in self.keepers if it not in todo.retire]
        for node in todo.spawn:
            name = f"shard {len(self._born_s)}"
            self._born_s[name] = self.now_s
            self.keepers.append(KeeperState(name, node))
            self.spawned.append((self.now_s, node))

    def _age_s(self, it: KeeperState) -> float:
        return self.now_s - self._born_s[it.actor_name]


def world(wanted: int, *nodes: str) -> SimulatedNodes:
    it = SimulatedNodes(wanted, list(nodes))
    it.go_on(5)
    assert sum(it.serving().values()) == wanted
    it.spawned.clear()
    return it


def test_the_replacement_of_a_shard_that_was_cut_off_goes_to_the_other_node() -> None:
    it = world(2, "a", "b")
    it.cut = {"a"}
    it.go_on(8)

    assert [node for _, node in it.spawned] == ["b"]
    assert it.serving() == {"b": 2}


def test_starts_on_a_disconnected_node_become_rarer_and_no_timer_is_missed() -> None:
    it = world(2, "a", "b")
    it.cut = {"a"}
    it.go_on(8)
    for _ in range(50):
        it.go_on(10)
        assert it.serving() == {"b": 2}

    tries = [at_s for at_s, node in it.spawned if node == "a"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses == sorted(pauses)
    assert len(tries) <= 10


def test_the_balance_is_restored_soon_after_the_network_is_repaired() -> None:
    for cut_s in (7, 15, 20, 30, 60, 300):
        it = world(2, "a", "b")
        it.cut = {"a"}
        it.go_on(cut_s)
        it.cut = set()
        it.go_on(MAX_S + 5)

        assert it.serving() == {"a": 1, "b": 1}, cut_s


def test_hanging_starts_on_the_only_node_are_limited() -> None:
    it = world(2, "a")
    it.cut = {"a"}
    it.go_on(60)

    assert len(it.keepers) <= 2


def test_a_start_that_hangs_for_some_seconds_is_repeated_on_another_node() -> None:
    it = SimulatedNodes(2, ["a", "b"], cut={"a"})
    it.go_on(STALLED_S + START_S + 2)

    assert it.serving() == {"b": 2}


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.integers(1, 40)), max_size=8))
def test_after_any_network_cuts_the_cluster_is_complete_and_balanced_again(
    wanted: int, cuts: list[tuple[set[str], int]]
) -> None:
    it = world(wanted, "a", "b", "c")
    for cut, for_s in cuts:
        it.cut = cut
        it.go_on(for_s)
        assert len(it.keepers) <= 3 * wanted + 3, "starts are bounded"

    it.cut = set()
    it.go_on(MAX_S + GIVEN_UP_S + 20)
    assert sum(it.serving().values()) == wanted
    load = [it.serving()[node] for node in it.nodes]
    assert max(load) - min(load) <= 1
