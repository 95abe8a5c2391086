"""The plan brings any fleet to the wanted number of keepers, spread over the nodes, and then changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.coordinator.takeover_plan import KeeperState, Observed, Plan, plan
from tests.support.keeper_states import holder_of, keeper, serving, silent, starting

SHARDS_MAX = 12
NODES = ("a", "b", "c", "d")


def test_an_empty_cluster_gets_the_wanted_keepers_spread_over_its_nodes() -> None:
    assert plan(5, Observed([], ["a", "b"])) == Plan(spawn=("a", "b", "a", "b", "a"))


def test_a_cluster_in_the_desired_state_gets_no_steps() -> None:
    assert plan(3, Observed(serving("a", "b", "a"), ["a", "b"])) == Plan(part_count=3)


def test_without_nodes_the_plan_has_no_steps() -> None:
    assert plan(3, Observed([], [])) == Plan()


def test_without_a_node_that_stays_the_shards_continue_to_serve() -> None:
    assert plan(2, Observed(serving("a", "b"), [])) == Plan(part_count=2)


def test_after_a_death_the_survivors_share_all_slots_and_a_replacement_starts() -> None:
    zero, _, two = serving("a", "b", "a")

    todo = plan(3, Observed([zero, two], ["a", "b"]))

    assert todo.part_count == 2
    assert todo.assign == {zero.holder: 0, two.holder: 1}
    assert todo.spawn == ("b",)


def test_a_starting_replacement_counts_towards_wanted_but_gets_no_slots_until_it_is_ready() -> None:
    zero, one = serving("a", "b")
    new = starting("new", "b")

    assert plan(3, Observed([zero, one, new], ["a", "b"])) == Plan(part_count=2)

    ready = replace(new, holder=7)
    todo = plan(3, Observed([zero, one, ready], ["a", "b"]))
    assert todo.assign == {zero.holder: 0, one.holder: 1, 7: 2}
    assert todo.part_count == 3


def test_scaling_up_starts_the_missing_keepers_on_the_emptiest_nodes() -> None:
    assert plan(5, Observed(serving("a", "a", "b"), ["a", "b", "c"])).spawn == ("c", "b")


def test_scaling_down_retires_the_surplus_and_the_first_keepers_keep_their_numbers() -> None:
    fleet = serving("a", "b", "a", "b", "a")

    todo = plan(2, Observed(fleet, ["a", "b"]))

    assert todo.retire == tuple(fleet[2:])
    assert todo.assign == {
        fleet[0].holder: 0,
        fleet[1].holder: 1,
        fleet[2].holder: None,
        fleet[3].holder: None,
        fleet[4].holder: None,
    }
    assert todo.part_count == 2


def test_a_shard_keeps_its_number_unless_it_must_change() -> None:
    zero, _, two, three = (replace(shard, part_count=3) for shard in serving("a", "a", "a", "a"))

    todo = plan(3, Observed([zero, two, three], ["a"]))

    assert todo.assign == {three.holder: 1}


def test_a_draining_node_is_emptied_only_after_its_shards_are_replaced() -> None:
    stays, leaves = serving("a", "b")

    assert plan(2, Observed([stays, leaves], ["a"])) == Plan(part_count=2, spawn=("a",))
    assert plan(2, Observed([stays, leaves, starting("new", "a")], ["a"])) == Plan(part_count=2)

    new = keeper("new", "a")
    todo = plan(2, Observed([stays, leaves, new], ["a"]))
    assert todo.retire == (leaves,)
    assert todo.assign == {new.holder: 1, leaves.holder: None}


def test_a_crowded_node_loses_one_keeper_when_the_replacement_is_ready() -> None:
    crowded = serving("a", "a", "a")

    assert plan(3, Observed(crowded, ["a", "b"])) == Plan(part_count=3, spawn=("b",))

    new = keeper("new", "b")
    todo = plan(3, Observed([*crowded, new], ["a", "b"]))
    assert todo.retire == (crowded[2],)
    assert todo.assign == {new.holder: 2, crowded[2].holder: None}


def test_nodes_that_differ_by_one_keeper_are_balanced() -> None:
    assert plan(3, Observed(serving("a", "a", "b"), ["a", "b"])).spawn == ()


# Two clusters: the foreign holders belong to the other cluster, and still have slots.


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, SHARDS_MAX), st.sets(st.integers(1, 99), max_size=4))
def test_foreign_holders_lose_their_slots_only_when_our_shards_serve_all_slots(
    ready: int, new: int, wanted: int, foreign_holders: set[int]
) -> None:
    keepers = serving(*["a"] * ready) + [starting(f"new-{number}", "a") for number in range(new)]
    fleet = Observed(keepers, ["a"], foreign_holders=sorted(foreign_holders))

    todo = plan(wanted, fleet)

    lose = {it: todo.assign[it] for it in foreign_holders if it in todo.assign}
    assert lose == dict.fromkeys(foreign_holders if ready else ())
    assert replace(todo, assign={it: part for it, part in todo.assign.items() if it not in foreign_holders}) == plan(
        wanted, replace(fleet, foreign_holders=())
    )


# Suspects are keepers that have been silent for a moment; a suspect may be dead or alive.


def test_a_suspect_is_suspended_and_neither_replaced_nor_retired_and_the_other_keepers_share_its_slots() -> None:
    zero, one, two = serving("a", "b", "a")

    todo = plan(3, Observed([zero, silent(one), two], ["a", "b"]))

    assert todo == Plan(
        assign={holder_of(zero): 0, holder_of(two): 1, holder_of(one): None},
        part_count=2,
        suspend=(holder_of(one),),
    )


def test_a_suspended_shard_that_remains_silent_causes_no_further_steps() -> None:
    zero, _ = serving("a", "b")
    survivor = replace(zero, part_count=1)

    assert plan(2, Observed([survivor, silent(keeper("s1", "b"), suspended=True)], ["a", "b"])) == Plan(part_count=1)


def test_a_suspended_shard_is_resumed_with_slots_after_its_next_heartbeat() -> None:
    back = replace(keeper("s1", "b"), suspended=True)

    todo = plan(2, Observed([keeper("s0", "a", 0, 1), back], ["a", "b"]))

    assert todo.assign == {keeper("s0", "a").holder: 0, back.holder: 1}
    assert (todo.part_count, todo.suspend, todo.resume) == (2, (), (back.holder,))


def test_if_all_keepers_are_suspect_the_assignment_stays_and_one_keeper_starts_on_a_node_without_a_suspect() -> None:
    fleet = [silent(one) for one in serving("a", "b")]

    assert plan(2, Observed(fleet, ["a", "b", "c"])) == Plan(spawn=("c",))
    assert plan(2, Observed([*fleet, starting("new", "c")], ["a", "b", "c"])) == Plan()


def test_a_silent_single_shard_is_replaced_immediately_and_retired_after_its_next_heartbeat() -> None:
    (only,) = serving("a")
    replacement = keeper("replacement", "a")

    assert plan(1, Observed([silent(only)], ["a"])) == Plan(spawn=("a",))

    todo = plan(1, Observed([silent(only), replacement], ["a"]))
    assert todo == Plan(
        assign={holder_of(replacement): 0, holder_of(only): None}, part_count=1, suspend=(holder_of(only),)
    )

    awake = replace(silent(only, suspended=True), suspect=False)
    todo = plan(1, Observed([awake, keeper("replacement", "a", 0, 1)], ["a"]))
    assert todo == Plan(part_count=1, retire=(awake,))


def test_of_two_silent_shards_the_first_with_a_new_heartbeat_gets_all_slots() -> None:
    one = replace(keeper("s0", "a", 0, 1))
    other = replace(keeper("s1", "a"), suspended=True)

    todo = plan(2, Observed([silent(one), other], ["a"]))

    assert todo.assign == {other.holder: 0, one.holder: None}
    assert (todo.suspend, todo.resume) == ((one.holder,), (other.holder,))


def test_a_suspended_shard_that_still_has_its_slots_is_resumed() -> None:
    zero, one = serving("a", "b")

    todo = plan(2, Observed([zero, replace(one, suspended=True)], ["a", "b"]))

    assert (todo.assign, todo.resume) == ({one.holder: 1}, (one.holder,))


def test_a_suspect_on_a_leaving_node_also_loses_its_slots() -> None:
    stays, leaves = serving("a", "b")

    todo = plan(2, Observed([stays, silent(leaves)], ["a"]))

    assert (todo.assign, todo.suspend) == ({stays.holder: 0, leaves.holder: None}, (leaves.holder,))
    assert todo.spawn == ("a",)


def test_new_actors_start_on_nodes_without_silent_actors_if_there_are_any() -> None:
    zero, one = serving("a", "b")

    assert plan(3, Observed([silent(zero), one], ["a", "b"])).spawn == ("b",)
    assert plan(3, Observed([silent(zero), silent(one)], ["a", "b"])).spawn == ("a",)


@dataclass
class SimulatedFleet:
    """A fleet that executes each plan; a started keeper is ready one round later."""

    wanted: int
    nodes: list[str]
    keepers: list[KeeperState]
    born: int = 1000

    def round(self) -> Plan:
        """Make a plan, execute it, and check that every slot has a shard if a keeper is ready."""
        todo = plan(self.wanted, Observed(self.keepers, self.nodes))
        assert not any(one.suspect for one in todo.retire), "a shard that may only have paused is left alone"
        retired = {gone.actor_name for gone in todo.retire}
        self.keepers = [self._assigned(one, todo) for one in self.keepers if one.actor_name not in retired]
        self._assert_covered()
        self.keepers = [replace(one, holder=one.holder or self._next()) for one in self.keepers]
        self.keepers += [starting(f"new-{self._next()}", node) for node in todo.spawn]
        return todo

    def spread(self) -> int:
        """Return the difference between the largest and the smallest number of shards on a node."""
        load = Counter(dict.fromkeys(self.nodes, 0))
        load.update(one.node_id for one in self.keepers)
        return max(load.values()) - min(load.values())

    def _assigned(self, one: KeeperState, todo: Plan) -> KeeperState:
        if one.holder not in todo.assign:
            return one
        shard = todo.assign[one.holder]
        count = None if shard is None else todo.part_count
        return replace(one, part=shard, part_count=count, suspended=one.holder in todo.suspend)

    def _assert_covered(self) -> None:
        ready = [one for one in self.keepers if one.ready]
        if not ready and any(one.suspect for one in self.keepers):
            return  # no keeper can take over, so nothing changes
        shards = sorted(one.part for one in self.keepers if one.part is not None)
        assert shards == list(range(len(ready)))
        assert all(one.suspended == one.suspect for one in self.keepers if one.registered)
        assert {one.part_count for one in ready} <= {len(ready)}

    def _next(self) -> int:
        self.born += 1
        return self.born


@st.composite
def simulations(draw: st.DrawFn) -> SimulatedFleet:
    """Draw any fleet: with missing, duplicate or too high shard numbers, leaving nodes, and starting actors."""
    shard = st.none() | st.integers(0, SHARDS_MAX - 1)
    rows = draw(st.lists(st.tuples(st.sampled_from(NODES), st.booleans(), shard), max_size=SHARDS_MAX))
    keepers = [
        KeeperState(f"old-{number}", node, number + 1, shard, SHARDS_MAX if shard is not None else None)
        if ready
        else starting(f"old-{number}", node)
        for number, (node, ready, shard) in enumerate(rows)
    ]
    nodes = draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True))
    return SimulatedFleet(draw(st.integers(1, SHARDS_MAX)), nodes, keepers)


@given(simulations())
def test_any_fleet_reaches_the_wanted_number_and_never_leaves_a_slot_without_a_shard(fleet: SimulatedFleet) -> None:
    # In the worst case one node has all shards, and one shard moves every two rounds.
    for _ in range(2 * SHARDS_MAX + 4):
        fleet.round()

    assert fleet.round() == Plan(part_count=fleet.wanted)
    assert sorted(one.part for one in fleet.keepers if one.part is not None) == list(range(fleet.wanted))
    assert fleet.spread() <= 1


@given(simulations(), st.data())
def test_deaths_and_new_sizes_during_a_change_leave_no_slot_without_a_shard(
    fleet: SimulatedFleet, data: st.DataObject
) -> None:
    for _ in range(10):
        fleet.round()
        dead = data.draw(st.sets(st.integers(0, SHARDS_MAX), max_size=2))
        fleet.keepers = [one for number, one in enumerate(fleet.keepers) if number not in dead]
        fleet.wanted = data.draw(st.integers(1, SHARDS_MAX))
        fleet.nodes = data.draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True))

    for _ in range(2 * SHARDS_MAX + 4):
        fleet.round()
    assert fleet.round() == Plan(part_count=fleet.wanted)


@given(simulations(), st.data())
def test_silences_during_a_change_leave_no_slot_without_a_shard_and_all_keepers_with_new_heartbeats_are_resumed(
    fleet: SimulatedFleet, data: st.DataObject
) -> None:
    for _ in range(10):
        quiet = data.draw(st.sets(st.integers(0, SHARDS_MAX), max_size=6))
        fleet.keepers = [
            replace(one, suspect=one.registered and number in quiet) for number, one in enumerate(fleet.keepers)
        ]
        fleet.round()

    fleet.keepers = [replace(one, suspect=False) for one in fleet.keepers]
    for _ in range(2 * SHARDS_MAX + 14):
        fleet.round()
    assert fleet.round() == Plan(part_count=fleet.wanted)
    assert not any(one.suspended for one in fleet.keepers)
