"""A stored endpoint is checked again before its deliveries are sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.sql.deliveries.settle import DeliveryEnding
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint
from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.endpoint import EndpointRules
from shardclock_server.webhooks.policy import POLICY, policy_of
from shardclock_server.workers.attempts import settlement_without_call
from shardclock_server.workers.route import route_of
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
        "there is no such endpoint: it was removed, or never added",
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
        ({"policy": {"concurrency": None}}, "concurrency None is refused"),
        ({"policy": {"concurrency": 2.5}}, "concurrency 2.5 is refused"),
        ({"policy": {"concurrency": True}}, "concurrency True is refused"),
        ({"policy": {"rate_per_s": 0}}, "rate_per_s 0 is refused"),
        ({"policy": {"rate_per_s": "5"}}, "rate_per_s '5' is refused"),
        ({"policy": {"timeout_s": "15"}}, "timeout_s '15' is refused"),
        ({"policy": {"retry_min_s": 86_000}}, "retry_min (86000 s) is longer than retry_max"),
        ({"policy": []}, "policy an array is refused: it must be an object"),
        ({"policy": None}, "policy null is refused"),
        ({"headers": []}, "they must be an object of texts, not an array"),
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
def test_any_row_gives_a_route(headers: Any, policy: Any, secrets: Any, url: str) -> None:
    route = route_of(StoredEndpoint("default", "billing", url, headers, secrets, policy), RULES)

    assert (route.endpoint is None) is (route.closed_reason is not None)
