"""Prove that all endpoints together have so much in hand and no more, and that each tenant comes to its share."""

from __future__ import annotations

import pytest

from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX
from shardclock_server.workers import budget
from shardclock_server.workers.budget import FEW_PLACES, IN_HAND_MAX, NEW_PLACES, PAYLOADS_BYTES_MAX, Budget, Load
from tests.support.handlers import delivery

LARGE = 2**20  # a service task's payload


def of(deliveries: int, payload_bytes: int = 0) -> Load:
    return Load(deliveries, payload_bytes)


def test_a_load_has_what_was_taken_and_has_not_left() -> None:
    load, small, large = Load(), delivery(1), delivery(2, payload="x" * 1_000)

    load.add([small, large])
    both = load.payload_bytes
    load.remove([large])

    assert (load.deliveries, both > 1_000, load.payload_bytes < 100) == (1, True, True)
    load.remove([small])
    assert load == Load()


def test_a_text_that_is_wider_in_memory_counts_as_that() -> None:
    plain, wide = Load(), Load()
    plain.add([delivery(1, payload="x" * 1_000)])
    wide.add([delivery(1, payload="x" * 999 + "😀")])

    assert wide.payload_bytes > 3 * plain.payload_bytes


@pytest.mark.parametrize("each_bytes", [100, PAYLOAD_BYTES_MAX, LARGE])
def test_a_tenant_alone_comes_to_half_of_the_budget(each_bytes: int) -> None:
    load = Load()
    while places := Budget([("a", load)]).places("a", each_bytes=each_bytes):
        load = Load(load.deliveries + places, load.payload_bytes + places * each_bytes)

    assert load.deliveries <= IN_HAND_MAX / 2 + 1
    assert load.payload_bytes <= PAYLOADS_BYTES_MAX / 2
    assert load.deliveries >= IN_HAND_MAX / 2 - 1 or load.payload_bytes >= PAYLOADS_BYTES_MAX / 2 - 2 * LARGE


def test_while_one_has_its_share_another_comes_to_one_and_takes_what_becomes_free() -> None:
    full = Budget([("a", of(IN_HAND_MAX // 2))])
    assert (full.places("a", each_bytes=0), full.new_places) == (0, NEW_PLACES)
    assert full.places("b", each_bytes=0) >= 500

    both = Budget([("a", of(IN_HAND_MAX // 2)), ("b", of(IN_HAND_MAX // 4))])
    assert (both.places("a", each_bytes=0), both.new_places) == (0, FEW_PLACES)
    fewer = Budget([("a", of(IN_HAND_MAX // 2 - 100)), ("b", of(IN_HAND_MAX // 4))])
    assert (fewer.places("a", each_bytes=0), fewer.places("b", each_bytes=0)) == (0, 50)


def test_endpoints_of_one_tenant_share_what_it_has() -> None:
    many = Budget([("a", of(100))] * (IN_HAND_MAX // 200))

    assert many.places("a", each_bytes=0) == 0
    assert many.free <= IN_HAND_MAX // 2


@pytest.mark.parametrize(
    "load", [of(IN_HAND_MAX), of(IN_HAND_MAX + 500), of(1, PAYLOADS_BYTES_MAX), of(1, 3 * PAYLOADS_BYTES_MAX)]
)
def test_when_nothing_is_free_nothing_is_taken_of_anybody(load: Load) -> None:
    full = Budget([("a", load)])

    assert (full.free, full.new_places) == (0, 0)
    assert (full.places("a", each_bytes=0), full.places("b", each_bytes=0)) == (0, 0)


def test_of_what_is_free_no_more_is_taken_than_could_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "PAYLOADS_BYTES_MAX", 10 * PAYLOAD_BYTES_MAX)

    assert (Budget([]).free, Budget([]).places("a", each_bytes=0)) == (10, 5)
    assert Budget([]).places("a", each_bytes=2 * PAYLOAD_BYTES_MAX) == 2


def test_a_tenant_that_has_its_share_in_hand_is_full_and_no_other_is() -> None:
    half = IN_HAND_MAX // 2
    assert Budget([("a", of(half - 1)), ("b", of(1))]).full_tenants == []
    assert Budget([("a", of(half + 1)), ("b", of(1))]).full_tenants == ["a"]
    assert Budget([("a", of(1, PAYLOADS_BYTES_MAX // 2)), ("b", of(1))]).full_tenants == ["a"]
