"""After an attempt, the delivery ends, or the next attempt gets the right time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardclock import Completed, Discarded, Failed, RetryLater
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.workers.attempts import (
    CLAIMS_WITHOUT_ANSWER_MAX,
    backoff_s,
    settlement_of,
    settlement_without_call,
)
from tests.support.handlers import NOON, delivery, policy_of

SOON = NOON + timedelta(seconds=1)


def longest(_: float, most: float) -> float:
    return most


def test_a_completed_attempt_is_delivered_and_a_discarded_one_is_discarded() -> None:
    it, policy = delivery(), policy_of()

    assert settlement_of(it, Completed(), policy, now=SOON, duration_s=0.2) == Settlement(
        it, DeliveryEnding.DELIVERED, duration_s=0.2
    )
    assert settlement_of(it, Discarded("paid"), policy, now=SOON) == Settlement(
        it, DeliveryEnding.DISCARDED, reason="paid"
    )


def test_a_failed_attempt_is_made_again_after_a_pause_that_doubles_up_to_the_longest() -> None:
    policy = policy_of(retry_min_s=2.0, retry_max_s=20.0, max_attempts=9)

    pauses = [
        settlement_of(delivery(failed_attempts=n), Failed("no"), policy, now=SOON, jitter=longest).delay_s
        for n in range(6)
    ]

    assert pauses == [2.0, 4.0, 8.0, 16.0, 20.0, 20.0]


def test_the_pause_has_full_jitter_between_the_bounds() -> None:
    policy = policy_of(retry_min_s=1.0, retry_max_s=64.0)

    pauses = [backoff_s(5, policy) for _ in range(300)]

    assert 1.0 <= min(pauses) < 4.0
    assert 13.0 < max(pauses) <= 16.0


def test_a_huge_attempt_number_causes_no_overflow() -> None:
    assert backoff_s(10_000, policy_of(), jitter=longest) == 3_600.0


def test_the_last_failed_attempt_makes_a_dead_letter_with_the_reason() -> None:
    policy = policy_of(max_attempts=3)

    again = settlement_of(delivery(failed_attempts=1), Failed("ValueError: no"), policy, now=SOON)
    last = settlement_of(delivery(failed_attempts=2), Failed("ValueError: no"), policy, now=SOON)

    assert (again.ending, again.fails) == (None, True)
    assert (last.ending, last.fails, last.reason) == (DeliveryEnding.DEAD, True, "ValueError: no (attempt 3 of 3)")


def test_a_payload_that_does_not_fit_is_dead_at_once() -> None:
    settled = settlement_of(delivery(), Failed("order: a number is missing", "payload"), policy_of(), now=SOON)

    assert (settled.ending, settled.reason) == (DeliveryEnding.DEAD, "order: a number is missing")


def test_a_handler_chooses_its_own_pause_but_no_more_attempts_than_it_has() -> None:
    outcome = RetryLater(300.0, "not yet")

    assert settlement_of(delivery(), outcome, policy_of(), now=SOON).delay_s == 300.0
    assert settlement_of(delivery(), outcome, policy_of(max_attempts=1), now=SOON).ending == DeliveryEnding.DEAD


def test_no_attempt_is_made_after_the_time_to_give_up() -> None:
    policy = policy_of(give_up_after_s=100.0)

    in_time = settlement_of(delivery(), RetryLater(98.0, "wait"), policy, now=SOON)
    too_late = settlement_of(delivery(), RetryLater(100.0, "wait"), policy, now=SOON)

    assert in_time.ending is None
    assert (too_late.ending, too_late.reason) == (
        DeliveryEnding.DEAD,
        "wait (given up: more than 100 s after its firing)",
    )


@pytest.mark.parametrize("failed", [0, 3])
def test_a_delivery_over_its_time_to_give_up_is_not_attempted(failed: int) -> None:
    policy = policy_of(give_up_after_s=100.0)

    assert settlement_without_call(delivery(failed_attempts=failed), policy, now=NOON + timedelta(seconds=100)) is None
    ended = settlement_without_call(delivery(failed_attempts=failed), policy, now=NOON + timedelta(seconds=101))

    assert ended is not None
    assert (ended.ending, ended.reason) == (DeliveryEnding.DEAD, "given up: more than 100 s after its firing")
    redriven = delivery(failed_attempts=failed, redriven_at=NOON + timedelta(seconds=50))
    assert settlement_without_call(redriven, policy, now=NOON + timedelta(seconds=101)) is None


@pytest.mark.parametrize(
    ("late_s", "facts", "expires"),
    [
        (9.0, {}, False),
        (11.0, {}, True),
        (11.0, {"claims": 4, "given_back": 3}, True),
        (11.0, {"claims": 2, "failed_attempts": 1}, False),
        # The delivery's first worker died, perhaps during the call, so the same attempt is made again.
        (11.0, {"claims": 2}, False),
    ],
)
def test_a_delivery_expires_if_its_first_attempt_would_come_too_late(
    late_s: float, facts: dict[str, int], expires: bool
) -> None:
    policy = policy_of(expires_after_s=10.0)

    settlement = settlement_without_call(delivery(**facts), policy, now=NOON + timedelta(seconds=late_s))

    assert (settlement is not None) is expires
    if settlement is not None:
        assert settlement.ending == DeliveryEnding.DISCARDED
        assert settlement.reason == "expired: no attempt began within 10 s of its due date"


def test_a_redriven_dead_letter_of_any_age_gets_its_full_time_to_give_up() -> None:
    policy = policy_of(expires_after_s=10.0, give_up_after_s=100.0)
    redriven = delivery(redriven_at=NOON + timedelta(days=1))
    now = NOON + timedelta(days=1, seconds=20)

    assert settlement_without_call(redriven, policy, now=now) is None
    assert settlement_of(redriven, RetryLater(70.0, "wait"), policy, now=now).ending is None
    assert settlement_of(redriven, RetryLater(90.0, "wait"), policy, now=now).ending == DeliveryEnding.DEAD


def test_released_claims_do_not_count_against_a_delivery() -> None:
    drained = delivery(claims=CLAIMS_WITHOUT_ANSWER_MAX + 5, given_back=5)

    assert settlement_without_call(drained, policy_of(), now=SOON) is None


def test_a_delivery_that_ends_many_workers_is_given_up() -> None:
    alive = delivery(claims=CLAIMS_WITHOUT_ANSWER_MAX + 3, failed_attempts=3)
    deadly = delivery(claims=CLAIMS_WITHOUT_ANSWER_MAX + 4, failed_attempts=3)

    assert settlement_without_call(alive, policy_of(), now=SOON) is None
    settlement = settlement_without_call(deadly, policy_of(), now=SOON)
    assert settlement is not None
    assert settlement.ending == DeliveryEnding.DEAD
