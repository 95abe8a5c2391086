"""Prove that what a tenant said of an endpoint's policy is completed, and refused in one sentence if it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from shardclock_server.webhooks.policy import InvalidPolicy, policy_of


def test_a_policy_says_all_that_a_delivery_is_judged_by() -> None:
    policy = policy_of({"rate_per_s": 5.0})

    assert (policy.rate_per_s, policy.max_attempts, policy.retry_max_s) == (5.0, 20, 43_200.0)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"max_attempts": 0}, "max_attempts 0 is refused: it must be a whole number from 1 to 1,000"),
        ({"rate_per_s": float("nan")}, "rate_per_s nan is refused"),
        ({"retry_min_s": 86_000}, "retry_min (86000 s) is longer than retry_max"),
        (["max_attempts"], "policy an array is refused: it must be an object"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_in_a_sentence(said: Any, sentence: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        policy_of(said)

    assert sentence in str(refused.value)
