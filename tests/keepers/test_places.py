"""Prove that worker and shard agree on the number of granted deliveries, in any order of events."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.keepers.places import GrantedPlaces, UsablePlaces

T = "order.expired"


def test_a_statement_uses_half_of_the_free_places_and_the_next_one_half_of_the_rest() -> None:
    usable = UsablePlaces()
    usable.learn({T: 5, "other": 0})

    first, second = usable.begin(), usable.begin()

    assert (first, second, usable.begin()) == ({T: 3}, {T: 1}, {T: 1})
    assert usable.begin() == {}


def test_places_that_a_statement_has_not_used_become_free_again() -> None:
    usable = UsablePlaces()
    usable.learn({T: 4})
    usable.end(usable.begin(), {T: 1})

    assert usable.begin() == {T: 2}, "of three that are left"


def test_a_limit_that_goes_down_is_kept_above_what_a_statement_is_using() -> None:
    usable = UsablePlaces()
    usable.learn({T: 4})
    using = usable.begin()

    assert usable.learn({T: 0}) == {T: 2}

    usable.end(using, {T: 1})
    assert usable.begin() == {T: 1}, "the worker still counts on it, until it lowers the limit again"


def test_a_lowered_limit_counts_when_the_shard_has_answered_and_is_not_changed_before() -> None:
    granted = GrantedPlaces()
    assert granted.change(T, 10) == 10
    granted.take(T, 3)

    assert granted.change(T, 0) == 3
    assert (granted.open(T), granted.change(T, 5)) == (7, None)

    granted.keep({T: 4})
    assert granted.open(T) == 1
    assert granted.change(T, 5) == 8


@given(st.lists(st.one_of(st.tuples(st.just("grant"), st.integers(0, 9)),
                          st.tuples(st.sampled_from(["begin", "to_shard", "to_worker"]), st.just(0)),
                          st.tuples(st.just("end"), st.integers(0, 9)))))  # fmt: skip
def test_a_shard_never_hands_over_more_deliveries_than_the_worker_has_granted(steps: list[tuple[str, int]]) -> None:
    granted, usable = GrantedPlaces(), UsablePlaces()
    to_shard, to_worker = deque[int](), deque[tuple[str, int]]()
    using: list[dict[str, int]] = []
    on_the_way = 0

    def arrive(arrived: tuple[str, int]) -> int:
        kind, number = arrived
        if kind == "kept":
            granted.keep({T: number})
            return 0
        assert granted.open(T) >= number
        granted.take(T, number)
        return number

    def step(event: str, number: int) -> None:
        nonlocal on_the_way
        if event == "grant" and (limit := granted.change(T, number)) is not None:
            to_shard.append(limit)
        elif event == "to_shard" and to_shard:
            to_worker.extend(("kept", it) for it in usable.learn({T: to_shard.popleft()}).values())
        elif event == "begin":
            using.append(usable.begin())
        elif event == "end" and using:
            used = using.pop(0)
            handed = min(number, used.get(T, 0))
            usable.end(used, {T: handed})
            to_worker.append(("handed", handed))
            on_the_way += handed
        elif event == "to_worker" and to_worker:
            on_the_way -= arrive(to_worker.popleft())

    for it in steps:
        step(*it)
        assert granted.open(T) >= on_the_way + sum(places.get(T, 0) for places in using)


def test_shard_and_worker_have_the_same_count_when_no_message_is_in_transit() -> None:
    granted, usable = GrantedPlaces(), UsablePlaces()
    for wanted, handed in ((8, 4), (8, 2), (1, 1), (0, 0), (6, 3)):
        limit: Any = granted.change(T, wanted)
        if limit is not None:
            granted.keep(usable.learn({T: limit}))
        using = usable.begin()
        usable.end(using, {T: min(handed, using.get(T, 0))})
        granted.take(T, min(handed, using.get(T, 0)))

    assert usable.begin() == {T: -(-granted.open(T) // 2)}
