"""New actors are not put where, or as fast as, the last ones failed."""

from coordinator.caution import PAUSE_MAX_S, STARTING_S, SUSPECT_S, Caution
from coordinator.plan import Fleet, Member, plan


def test_a_node_is_suspect_for_a_while() -> None:
    caution = Caution()
    caution.suspect("a", now_s=100.0)
    assert caution.suspects(now_s=100.0 + SUSPECT_S - 1) == {"a"}
    assert not caution.suspects(now_s=100.0 + SUSPECT_S)


def test_one_failed_start_costs_no_time_and_more_of_them_ever_more() -> None:
    caution = Caution()
    caution.learn_ages([STARTING_S / 2], now_s=100.0)
    assert caution.may_spawn(now_s=100.0)
    caution.learn_ages([STARTING_S / 2], now_s=100.0)
    assert not caution.may_spawn(now_s=101.0)
    assert caution.may_spawn(now_s=102.0)
    caution.learn_ages([STARTING_S / 2] * 20, now_s=200.0)
    assert not caution.may_spawn(now_s=200.0 + PAUSE_MAX_S - 1)
    assert caution.may_spawn(now_s=200.0 + PAUSE_MAX_S)


def test_who_comes_to_lead_starts_its_shards_at_once_however_often_they_failed_before() -> None:
    caution = Caution()
    caution.learn_ages([STARTING_S / 2] * 20, now_s=100.0)
    caution.pardon()
    assert caution.may_spawn(now_s=100.0)
    caution.learn_ages([STARTING_S / 2], now_s=101.0)
    assert caution.may_spawn(now_s=101.0)


def test_an_actor_that_had_worked_is_replaced_at_once() -> None:
    caution = Caution()
    caution.learn_ages([STARTING_S / 2, STARTING_S + 1], now_s=100.0)
    assert caution.may_spawn(now_s=100.0)


def test_a_suspect_node_keeps_its_actors_and_gets_no_new_ones() -> None:
    staying = Member("x", "a", holder=1, shard=0, shard_count=1)
    todo = plan(3, Fleet(members=[staying], nodes=["a", "b"], suspects=frozenset({"a"})))
    assert todo.spawn == ("b", "b")
    assert not todo.retire


def test_a_suspect_node_is_used_when_there_is_no_other() -> None:
    todo = plan(1, Fleet(members=[], nodes=["a"], suspects=frozenset({"a"})))
    assert todo.spawn == ("a",)
