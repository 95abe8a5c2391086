"""A stored endpoint is checked again before its deliveries are sent, and all endpoints share one budget."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.sql.deliveries.settle import DeliveryEnding
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX
from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.endpoint import EndpointRules
from shardclock_server.webhooks.policy_defaults import POLICY, policy_of
from shardclock_server.workers import webhook_budget
from shardclock_server.workers.attempts import settlement_without_call
from shardclock_server.workers.route import route_of
from shardclock_server.workers.webhook import message_of
from shardclock_server.workers.webhook_budget import (
    DELIVERIES_MAX,
    FEW_PLACES,
    NEW_PLACES,
    PAYLOADS_BYTES_MAX,
    MemoryUsage,
    WebhookBudget,
)
from tests.support.handlers import NOON, delivery
from tests.support.receivers import SECRET

STORED = StoredEndpoint("default", "billing", "https://example.com/hooks", {"authorization": "Bearer 7"}, (SECRET,), {})
RULES = EndpointRules()


def test_the_route_and_its_policy_come_from_the_stored_endpoint() -> None:
    route = route_of(replace(STORED, policy={"timeout_s": 3.0, "max_attempts": 2, "of_a_later_release": 1}), RULES)

    assert route.endpoint is not None
    assert str(route.endpoint.url) == "https://example.com/hooks"
    assert route.endpoint.headers == (("authorization", "Bearer 7"),)
    assert route.endpoint.timeout_s == 3.0
    assert (route.policy.max_attempts, route.policy.concurrency) == (2, 50)


def test_a_removed_or_disabled_endpoint_gets_no_delivery() -> None:
    removed = route_of(None, RULES)
    disabled = route_of(replace(STORED, disabled_at=NOON, disabled_why="answered 410 Gone"), RULES)

    assert (removed.endpoint, removed.closed_reason, removed.is_final) == (
        None,
        "the endpoint does not exist: it was removed, or never added",
        True,
    )
    assert (disabled.endpoint, disabled.is_final) == (None, True)
    assert disabled.closed_reason == "the endpoint is disabled: answered 410 Gone"


def test_an_endpoint_that_the_operator_no_longer_allows_gets_no_delivery() -> None:
    route = route_of(replace(STORED, url="https://10.1.2.3/hooks"), RULES)

    assert (route.endpoint, route.is_final) == (None, False)
    assert "its host must be public" in (route.closed_reason or "")
    allowing = EndpointRules(networks=networks_of(["10.1.0.0/16"]))
    assert route_of(replace(STORED, url="https://10.1.2.3/hooks"), allowing).endpoint is not None


def test_secrets_and_headers_are_not_shown() -> None:
    assert "whsec_" not in repr(route_of(STORED, RULES))
    assert "Bearer" not in repr(route_of(STORED, RULES))


def test_a_delivery_is_given_up_after_three_days_by_default() -> None:
    late = NOON + timedelta(days=3, seconds=1)

    assert settlement_without_call(delivery(failed_attempts=2), policy_of({}), now=late - timedelta(seconds=2)) is None
    ended = settlement_without_call(delivery(failed_attempts=2), policy_of({}), now=late)
    assert ended is not None
    assert (ended.ending, ended.reason) == (DeliveryEnding.DEAD, "given up: more than 259200 s after its firing")
    assert settlement_without_call(delivery(), policy_of({"give_up_after_s": None}), now=late) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"policy": {"concurrency": 0}}, "concurrency 0 is refused: it must be a whole number from 1 to 1,000"),
        ({"headers": []}, "they must be an object of texts, not […]"),
        ({"headers": {"x-a": 1}}, "header 'x-a' is refused: its value must be a text"),
        ({"secrets": (None,)}, "a secret is refused: it must be a text"),
        ({"secrets": ([SECRET],)}, "a secret is refused: it must be a text"),
    ],
)
def test_an_invalid_row_makes_a_closed_route_with_the_reason(change: dict[str, Any], sentence: str) -> None:
    route = route_of(replace(STORED, **change), RULES)

    assert (route.endpoint, route.is_final) == (None, False)
    assert sentence in (route.closed_reason or "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.dictionaries(st.sampled_from(sorted(POLICY)), JSON, max_size=4)


@given(
    JSON | st.just({}), JSON | NUMBERS, st.lists(JSON | st.just(SECRET), max_size=5).map(tuple), st.text(max_size=30)
)
def test_each_stored_row_can_be_converted_to_a_route(headers: Any, policy: Any, secrets: Any, url: str) -> None:
    route = route_of(StoredEndpoint("default", "billing", url, headers, secrets, policy), RULES)

    assert (route.endpoint is None) is (route.closed_reason is not None)


def test_each_attempt_sends_the_same_id_and_bytes() -> None:
    first = delivery(7, payload='{"order": 42}', name="order-42")
    again = first._replace(claims=3, failed_attempts=2, next_attempt_at=NOON.replace(hour=13))

    assert message_of(first) == message_of(again)
    body = json.loads(message_of(first).body)
    assert body["type"] == "timer.fired"
    assert (body["data"]["timer_key"], body["data"]["name"]) == (7, "order-42")
    assert body["data"]["payload"] == {"order": 42}
    assert body["data"]["due_date"] == "2026-03-02T12:00:00Z"


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
def test_a_single_tenant_may_use_half_of_the_budget(each_bytes: int) -> None:
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
