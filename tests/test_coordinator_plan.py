"""The plan brings any fleet to what is wanted, spread over its nodes, and then leaves it alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from coordinator.plan import Fleet, Member, Plan, plan

SHARDS_MAX = 12
NODES = ("a", "b", "c", "d")


def member(name: str, node: str, shard: int | None = None, shard_count: int | None = None) -> Member:
    """Make a shard actor that is ready; its holder follows from its name."""
    return Member(name, node, holder=sum(name.encode()), shard=shard, shard_count=shard_count)


def starting(name: str, node: str) -> Member:
    """Make a shard actor that has not registered yet."""
    return Member(name, node)


def serving(*nodes: str) -> list[Member]:
    """Make shards 0, 1, 2 … on these nodes."""
    return [member(f"s{number}", node, number, len(nodes)) for number, node in enumerate(nodes)]


def test_an_empty_cluster_gets_what_is_wanted_spread_over_its_nodes() -> None:
    assert plan(5, Fleet([], ["a", "b"])) == Plan(spawn=("a", "b", "a", "b", "a"))


def test_a_cluster_that_is_as_it_should_be_is_left_alone() -> None:
    assert plan(3, Fleet(serving("a", "b", "a"), ["a", "b"])) == Plan(shard_count=3)


def test_without_nodes_nothing_can_be_done() -> None:
    assert plan(3, Fleet([], [])) == Plan()


def test_without_a_node_that_stays_the_shards_serve_on() -> None:
    assert plan(2, Fleet(serving("a", "b"), [])) == Plan(shard_count=2)


def test_a_death_shares_all_slots_among_the_survivors_and_is_replaced() -> None:
    zero, _, two = serving("a", "b", "a")

    todo = plan(3, Fleet([zero, two], ["a", "b"]))

    assert todo.shard_count == 2
    assert todo.assign == {zero.holder: 0, two.holder: 1}
    assert todo.spawn == ("b",)


def test_a_replacement_is_counted_on_but_given_nothing_until_it_is_ready() -> None:
    zero, one = serving("a", "b")
    new = starting("new", "b")

    assert plan(3, Fleet([zero, one, new], ["a", "b"])) == Plan(shard_count=2)

    ready = replace(new, holder=7)
    todo = plan(3, Fleet([zero, one, ready], ["a", "b"]))
    assert todo.assign == {zero.holder: 0, one.holder: 1, 7: 2}
    assert todo.shard_count == 3


def test_scaling_up_starts_the_missing_ones_where_there_is_room() -> None:
    assert plan(5, Fleet(serving("a", "a", "b"), ["a", "b", "c"])).spawn == ("c", "b")


def test_scaling_down_retires_the_surplus_and_the_first_keep_their_numbers() -> None:
    fleet = serving("a", "b", "a", "b", "a")

    todo = plan(2, Fleet(fleet, ["a", "b"]))

    assert todo.retire == tuple(fleet[2:])
    assert todo.assign == {
        fleet[0].holder: 0,
        fleet[1].holder: 1,
        fleet[2].holder: None,
        fleet[3].holder: None,
        fleet[4].holder: None,
    }
    assert todo.shard_count == 2


def test_only_those_that_must_get_another_number_get_one() -> None:
    zero, _, two, three = (replace(shard, shard_count=3) for shard in serving("a", "a", "a", "a"))

    todo = plan(3, Fleet([zero, two, three], ["a"]))

    assert todo.assign == {three.holder: 1}


def test_a_draining_node_is_emptied_only_after_its_shards_are_replaced() -> None:
    stays, leaves = serving("a", "b")

    assert plan(2, Fleet([stays, leaves], ["a"])) == Plan(shard_count=2, spawn=("a",))
    assert plan(2, Fleet([stays, leaves, starting("new", "a")], ["a"])) == Plan(shard_count=2)

    new = member("new", "a")
    todo = plan(2, Fleet([stays, leaves, new], ["a"]))
    assert todo.retire == (leaves,)
    assert todo.assign == {new.holder: 1, leaves.holder: None}


def test_a_crowded_node_gives_up_one_when_its_replacement_is_ready() -> None:
    crowded = serving("a", "a", "a")

    assert plan(3, Fleet(crowded, ["a", "b"])) == Plan(shard_count=3, spawn=("b",))

    new = member("new", "b")
    todo = plan(3, Fleet([*crowded, new], ["a", "b"]))
    assert todo.retire == (crowded[2],)
    assert todo.assign == {new.holder: 2, crowded[2].holder: None}


def test_nodes_within_one_of_each_other_are_even_enough() -> None:
    assert plan(3, Fleet(serving("a", "a", "b"), ["a", "b"])).spawn == ()


# Two clusters: guests are holders of another one that still keep slots.


def test_the_slots_of_guests_are_taken_over_in_the_same_breath() -> None:
    todo = plan(2, Fleet([member("a", "a"), member("b", "b")], ["a", "b"], guests=[91, 92]))

    assert todo.shard_count == 2
    assert sorted(todo.assign.items()) == sorted(
        {member("a", "a").holder: 0, member("b", "b").holder: 1, 91: None, 92: None}.items()
    )
    assert todo.retire == (), "they are not ours to retire"


def test_guests_serve_on_for_as_long_as_nobody_else_is_ready() -> None:
    todo = plan(2, Fleet([starting("a", "a")], ["a"], guests=[91]))

    assert todo.assign == {}
    assert todo.spawn == ("a",)


def test_guests_are_dropped_though_nothing_else_changes() -> None:
    assert plan(2, Fleet(serving("a", "b"), ["a", "b"], guests=[91])).assign == {91: None}


def test_guests_are_no_hands_that_count() -> None:
    assert plan(3, Fleet(serving("a", "a"), ["a"], guests=[91])).spawn == ("a",)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, SHARDS_MAX), st.sets(st.integers(1, 99), max_size=4))
def test_guests_lose_their_slots_exactly_when_ours_keep_them_all(
    ready: int, new: int, wanted: int, guests: set[int]
) -> None:
    members = serving(*["a"] * ready) + [starting(f"new-{number}", "a") for number in range(new)]
    fleet = Fleet(members, ["a"], guests=sorted(guests))

    todo = plan(wanted, fleet)

    assert {guest for guest in guests if guest in todo.assign} == (guests if ready else set())
    assert replace(todo, assign={who: what for who, what in todo.assign.items() if who not in guests}) == plan(
        wanted, replace(fleet, guests=())
    )


@dataclass
class Simulation:
    """A fleet that does what it is told: what is spawned is ready a round later."""

    wanted: int
    nodes: list[str]
    members: list[Member]
    born: int = 1000

    def round(self) -> Plan:
        """Plan, check that every slot has a shard while anyone is ready, and carry it out."""
        todo = plan(self.wanted, Fleet(self.members, self.nodes))
        retired = {gone.actor_name for gone in todo.retire}
        self.members = [self._assigned(one, todo) for one in self.members if one.actor_name not in retired]
        self._assert_covered()
        self.members = [replace(one, holder=one.holder or self._next()) for one in self.members]
        self.members += [starting(f"new-{self._next()}", node) for node in todo.spawn]
        return todo

    def spread(self) -> int:
        """Tell how many more shards the fullest node has than the emptiest."""
        load = Counter(dict.fromkeys(self.nodes, 0))
        load.update(one.node_id for one in self.members)
        return max(load.values()) - min(load.values())

    def _assigned(self, one: Member, todo: Plan) -> Member:
        if one.holder not in todo.assign:
            return one
        return replace(one, shard=todo.assign[one.holder], shard_count=todo.shard_count)

    def _assert_covered(self) -> None:
        ready = [one for one in self.members if one.ready]
        shards = sorted(one.shard for one in ready if one.shard is not None)
        assert shards == list(range(len(ready)))
        assert {one.shard_count for one in ready} <= {len(ready)}

    def _next(self) -> int:
        self.born += 1
        return self.born


@st.composite
def simulations(draw: st.DrawFn) -> Simulation:
    """Draw any fleet, however it came to be: numbers missing, twice, too high; nodes leaving; actors starting."""
    shard = st.none() | st.integers(0, SHARDS_MAX - 1)
    rows = draw(st.lists(st.tuples(st.sampled_from(NODES), st.booleans(), shard), max_size=SHARDS_MAX))
    members = [
        Member(f"old-{number}", node, number + 1, shard, SHARDS_MAX if shard is not None else None)
        if ready
        else starting(f"old-{number}", node)
        for number, (node, ready, shard) in enumerate(rows)
    ]
    nodes = draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True))
    return Simulation(draw(st.integers(1, SHARDS_MAX)), nodes, members)


@given(simulations())
def test_any_fleet_comes_to_what_is_wanted_without_ever_leaving_a_slot_alone(fleet: Simulation) -> None:
    # At worst one node has all, and gives up one every two rounds.
    for _ in range(2 * SHARDS_MAX + 4):
        fleet.round()

    assert fleet.round() == Plan(shard_count=fleet.wanted)
    assert sorted(one.shard for one in fleet.members if one.shard is not None) == list(range(fleet.wanted))
    assert fleet.spread() <= 1


@given(simulations(), st.data())
def test_deaths_and_new_sizes_on_the_way_leave_no_slot_alone_either(fleet: Simulation, data: st.DataObject) -> None:
    for _ in range(10):
        fleet.round()
        dead = data.draw(st.sets(st.integers(0, SHARDS_MAX), max_size=2))
        fleet.members = [one for number, one in enumerate(fleet.members) if number not in dead]
        fleet.wanted = data.draw(st.integers(1, SHARDS_MAX))
        fleet.nodes = data.draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True))

    for _ in range(2 * SHARDS_MAX + 4):
        fleet.round()
    assert fleet.round() == Plan(shard_count=fleet.wanted)
