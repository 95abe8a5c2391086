"""All endpoints share one budget, and each tenant can use its share."""

from __future__ import annotations

import pytest

from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX
from shardclock_server.workers import webhook_budget
from shardclock_server.workers.webhook_budget import (
    DELIVERIES_MAX,
    FEW_PLACES,
    NEW_PLACES,
    PAYLOADS_BYTES_MAX,
    MemoryUsage,
    WebhookBudget,
)
from tests.support.handlers import delivery

LARGE = 2**20  # the delivery has a service task's payload


def of(deliveries: int, payload_bytes: int = 0) -> MemoryUsage:
    return MemoryUsage(deliveries, payload_bytes)


def test_the_usage_is_the_sum_of_added_deliveries_that_were_not_removed() -> None:
    usage, small, large = MemoryUsage(), delivery(1), delivery(2, payload="x" * 1_000)

    usage.add([small, large])
    both = usage.payload_bytes
    usage.remove([large])

    assert (usage.deliveries, both > 1_000, usage.payload_bytes < 100) == (1, True, True)
    usage.remove([small])
    assert usage == MemoryUsage()


def test_a_payload_counts_with_its_size_in_memory() -> None:
    plain, wide = MemoryUsage(), MemoryUsage()
    plain.add([delivery(1, payload="x" * 1_000)])
    wide.add([delivery(1, payload="x" * 999 + "😀")])

    assert wide.payload_bytes > 3 * plain.payload_bytes


@pytest.mark.parametrize("each_bytes", [100, PAYLOAD_BYTES_MAX, LARGE])
def test_a_tenant_alone_comes_to_half_of_the_budget(each_bytes: int) -> None:
    usage = MemoryUsage()
    while places := WebhookBudget([("a", usage)]).places("a", each_bytes=each_bytes):
        usage = MemoryUsage(usage.deliveries + places, usage.payload_bytes + places * each_bytes)

    assert usage.deliveries <= DELIVERIES_MAX / 2 + 1
    assert usage.payload_bytes <= PAYLOADS_BYTES_MAX / 2
    assert usage.deliveries >= DELIVERIES_MAX / 2 - 1 or usage.payload_bytes >= PAYLOADS_BYTES_MAX / 2 - 2 * LARGE


def test_a_second_tenant_reaches_its_share_and_gets_freed_capacity() -> None:
    full = WebhookBudget([("a", of(DELIVERIES_MAX // 2))])
    assert (full.places("a", each_bytes=0), full.new_places) == (0, NEW_PLACES)
    assert full.places("b", each_bytes=0) >= 500

    both = WebhookBudget([("a", of(DELIVERIES_MAX // 2)), ("b", of(DELIVERIES_MAX // 4))])
    assert (both.places("a", each_bytes=0), both.new_places) == (0, FEW_PLACES)
    fewer = WebhookBudget([("a", of(DELIVERIES_MAX // 2 - 100)), ("b", of(DELIVERIES_MAX // 4))])
    assert (fewer.places("a", each_bytes=0), fewer.places("b", each_bytes=0)) == (0, 50)


def test_endpoints_of_one_tenant_share_its_budget() -> None:
    many = WebhookBudget([("a", of(100))] * (DELIVERIES_MAX // 200))

    assert many.places("a", each_bytes=0) == 0
    assert many.free <= DELIVERIES_MAX // 2


@pytest.mark.parametrize(
    "usage", [of(DELIVERIES_MAX), of(DELIVERIES_MAX + 500), of(1, PAYLOADS_BYTES_MAX), of(1, 3 * PAYLOADS_BYTES_MAX)]
)
def test_a_used_up_budget_has_no_capacity_for_any_tenant(usage: MemoryUsage) -> None:
    full = WebhookBudget([("a", usage)])

    assert (full.free, full.new_places) == (0, 0)
    assert (full.places("a", each_bytes=0), full.places("b", each_bytes=0)) == (0, 0)


def test_free_capacity_counts_payloads_of_the_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_budget, "PAYLOADS_BYTES_MAX", 10 * PAYLOAD_BYTES_MAX)

    assert (WebhookBudget([]).free, WebhookBudget([]).places("a", each_bytes=0)) == (10, 5)
    assert WebhookBudget([]).places("a", each_bytes=2 * PAYLOAD_BYTES_MAX) == 2


def test_only_a_tenant_that_has_used_its_share_is_full() -> None:
    half = DELIVERIES_MAX // 2
    assert WebhookBudget([("a", of(half - 1)), ("b", of(1))]).full_tenants == []
    assert WebhookBudget([("a", of(half + 1)), ("b", of(1))]).full_tenants == ["a"]
    assert WebhookBudget([("a", of(1, PAYLOADS_BYTES_MAX // 2)), ("b", of(1))]).full_tenants == ["a"]
