"""Test that a tenant's policy for an endpoint is completed with defaults, or refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from shardclock_server.webhooks.policy_defaults import InvalidPolicy, policy_of


def test_a_policy_is_completed_with_defaults() -> None:
    policy = policy_of({"rate_per_s": 5.0})

    assert (policy.rate_per_s, policy.max_attempts, policy.retry_max_s) == (5.0, 20, 43_200.0)


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({"max_attempts": 0}, "max_attempts 0 is refused: it must be a whole number from 1 to 1,000"),
        ({"rate_per_s": float("nan")}, "rate_per_s nan is refused"),
        ({"retry_min_s": 86_000}, "retry_min (86000 s) is longer than retry_max"),
        ({"concurrency": None}, "concurrency None is refused"),
        ({"concurrency": 2.5}, "concurrency 2.5 is refused"),
        ({"concurrency": True}, "concurrency True is refused"),
        ({"rate_per_s": 0}, "rate_per_s 0 is refused"),
        ({"timeout_s": "15"}, "timeout_s '15' is refused"),
        (None, "policy null is refused"),
        (["max_attempts"], "policy […] is refused: it must be an object"),
    ],
)
def test_a_wrong_policy_of_an_endpoint_is_refused_in_a_sentence(stored: Any, sentence: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        policy_of(stored)

    assert sentence in str(refused.value)
