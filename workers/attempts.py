"""Decide whether a delivery ends or gets another attempt."""

import json
import random
from collections.abc import Sequence
from datetime import datetime

from shardclock import COMPLETED, Completed, Discarded, Failed, Outcome, Policy, RetryLater
from shardclock.backoff import Backoff, Jitter
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement

# A worker that dies during a call leaves no answer. After this number of claims without an answer, the delivery is
# probably the cause of these deaths.
CLAIMS_WITHOUT_ANSWER_MAX = 20


def settlement_of(
    delivery: ClaimedDelivery,
    outcome: Outcome,
    policy: Policy,
    *,
    now: datetime,
    duration_s: float = 0.0,
    jitter: Jitter = random.uniform,
) -> Settlement:
    """Return the settlement of a delivery after an attempt."""
    if outcome is COMPLETED:  # the most frequent outcome
        return Settlement(delivery, DeliveryEnding.DELIVERED, duration_s=duration_s)
    match outcome:
        case Completed(result, note):
            text = None if result is None else json.dumps(result)
            return Settlement(delivery, DeliveryEnding.DELIVERED, duration_s=duration_s, reason=note, result=text)
        case Discarded(reason, code, variables):
            thrown = None if code is None else json.dumps({"error_code": code, "variables": variables or {}})
            return Settlement(delivery, DeliveryEnding.DISCARDED, duration_s=duration_s, reason=reason, result=thrown)
        case RetryLater(delay_s, reason):
            return _retry(delivery, policy, now=now, delay_s=delay_s, duration_s=duration_s, reason=reason)
        case Failed(reason=reason, kind="payload"):
            return Settlement(delivery, DeliveryEnding.DEAD, fails=True, duration_s=duration_s, reason=reason)
        case Failed(reason=reason):
            delay_s = backoff_s(delivery.failed_attempts + 1, policy, jitter=jitter)
            return _retry(delivery, policy, now=now, delay_s=delay_s, duration_s=duration_s, reason=reason)


def settlements_without_call(
    deliveries: Sequence[ClaimedDelivery], policy: Policy, *, now: datetime
) -> dict[Claim, Settlement]:
    """Return the settlements of the deliveries that end without a call."""
    if policy.expires_after_s is None and policy.give_up_after_s is None:
        deliveries = [it for it in deliveries if it.claims > CLAIMS_WITHOUT_ANSWER_MAX]  # the only rule that applies
    return {it.claim: settlement for it in deliveries if (settlement := settlement_without_call(it, policy, now=now))}


def settlement_without_call(delivery: ClaimedDelivery, policy: Policy, *, now: datetime) -> Settlement | None:
    """Return the settlement of a delivery that ends without an attempt; None: make the attempt."""
    if policy.expires_after_s is not None and _has_expired(delivery, policy.expires_after_s, now):
        reason = f"expired: no attempt began within {policy.expires_after_s:g} s of its due date"
        return Settlement(delivery, DeliveryEnding.DISCARDED, reason=reason)
    if delivery.claims - delivery.failed_attempts - delivery.given_back > CLAIMS_WITHOUT_ANSWER_MAX:
        reason = f"{CLAIMS_WITHOUT_ANSWER_MAX} workers claimed it and sent no outcome; it may crash workers"
        return Settlement(delivery, DeliveryEnding.DEAD, fails=True, reason=reason)
    if policy.give_up_after_s is not None and _age_s(delivery, now) > policy.give_up_after_s:
        return _dead(delivery, 0.0, f"given up: more than {policy.give_up_after_s:g} s after its firing")
    return None


def _has_expired(delivery: ClaimedDelivery, after_s: float, now: datetime) -> bool:
    # Only a delivery's first claim can expire, because a second claim repeats the attempt of a worker that died. A
    # redriven dead letter does not expire either.
    is_first = delivery.claims - delivery.given_back <= 1 and delivery.redriven_at is None
    return is_first and (now - delivery.due_date).total_seconds() > after_s


def backoff_s(attempt: int, policy: Policy, *, jitter: Jitter = random.uniform) -> float:
    """Return the pause after the failed attempt number `attempt`: exponential, with full jitter between the bounds."""
    return jitter(policy.retry_min_s, Backoff(policy.retry_min_s, policy.retry_max_s).pause_s(attempt))


def _retry(
    delivery: ClaimedDelivery,
    policy: Policy,
    *,
    now: datetime,
    delay_s: float,
    duration_s: float,
    reason: str,
) -> Settlement:
    failed = delivery.failed_attempts + 1
    attempts_max = delivery.attempts_max or policy.max_attempts
    next_age_s = _age_s(delivery, now) + delay_s
    if failed >= attempts_max:
        return _dead(delivery, duration_s, f"{reason} (attempt {failed} of {attempts_max})")
    if policy.give_up_after_s is not None and next_age_s > policy.give_up_after_s:
        return _dead(
            delivery, duration_s, f"{reason} (given up: more than {policy.give_up_after_s:g} s after its firing)"
        )
    return Settlement(delivery, None, fails=True, delay_s=delay_s, duration_s=duration_s, reason=reason)


def _age_s(delivery: ClaimedDelivery, now: datetime) -> float:
    return (now - (delivery.redriven_at or delivery.fired_at)).total_seconds()


def _dead(delivery: ClaimedDelivery, duration_s: float, reason: str) -> Settlement:
    return Settlement(delivery, DeliveryEnding.DEAD, fails=True, duration_s=duration_s, reason=reason)
