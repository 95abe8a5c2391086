"""What follows an attempt: the delivery's end, or another attempt later."""

import json
import random
from collections.abc import Callable, Sequence
from datetime import datetime

from shardclock import COMPLETED, Completed, Discarded, Failed, Outcome, Policy, RetryLater
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Ending, Settlement

# A worker that dies with a delivery in hand leaves no answer. After this many claims without one, the delivery itself
# is the likely cause.
CLAIMS_WITHOUT_ANSWER_MAX = 20

Jitter = Callable[[float, float], float]


def settlement_of(
    delivery: ClaimedDelivery,
    outcome: Outcome,
    policy: Policy,
    *,
    now: datetime,
    duration_s: float = 0.0,
    jitter: Jitter = random.uniform,
) -> Settlement:
    """Decide what follows an attempt."""
    if outcome is COMPLETED:  # as most are
        return Settlement(delivery, Ending.DELIVERED, duration_s=duration_s)
    match outcome:
        case Completed(result, note):
            text = None if result is None else json.dumps(result)
            return Settlement(delivery, Ending.DELIVERED, duration_s=duration_s, reason=note, result=text)
        case Discarded(reason, code, variables):
            thrown = None if code is None else json.dumps({"error_code": code, "variables": variables or {}})
            return Settlement(delivery, Ending.DISCARDED, duration_s=duration_s, reason=reason, result=thrown)
        case RetryLater(delay_s, reason):
            return _again(delivery, policy, now=now, delay_s=delay_s, duration_s=duration_s, reason=reason)
        case Failed(reason=reason, kind="payload"):
            return Settlement(delivery, Ending.DEAD, fails=True, duration_s=duration_s, reason=reason)
        case Failed(reason=reason):
            delay_s = backoff_s(delivery.failed_attempts + 1, policy, jitter=jitter)
            return _again(delivery, policy, now=now, delay_s=delay_s, duration_s=duration_s, reason=reason)


def ended_uncalled(deliveries: Sequence[ClaimedDelivery], policy: Policy, *, now: datetime) -> dict[Claim, Settlement]:
    """Decide before a call which deliveries end without it."""
    if policy.expires_after_s is None and policy.give_up_after_s is None:
        deliveries = [it for it in deliveries if it.claims > CLAIMS_WITHOUT_ANSWER_MAX]  # nothing else can end one
    return {it.claim: settlement for it in deliveries if (settlement := why_not(it, policy, now=now))}


def why_not(delivery: ClaimedDelivery, policy: Policy, *, now: datetime) -> Settlement | None:
    """Decide before an attempt whether the delivery ends without it; None: make the attempt."""
    if policy.expires_after_s is not None and _has_expired(delivery, policy.expires_after_s, now):
        reason = f"it expired: no attempt began within {policy.expires_after_s:g} s of its due date"
        return Settlement(delivery, Ending.DISCARDED, reason=reason)
    if delivery.claims - delivery.failed_attempts - delivery.given_back > CLAIMS_WITHOUT_ANSWER_MAX:
        reason = f"{CLAIMS_WITHOUT_ANSWER_MAX} workers took it and gave no answer; the last one may have died of it"
        return Settlement(delivery, Ending.DEAD, fails=True, reason=reason)
    if policy.give_up_after_s is not None and _age_s(delivery, now) > policy.give_up_after_s:
        return _dead(delivery, 0.0, f"given up: {policy.give_up_after_s:g} s after its firing are over")
    return None


def _has_expired(delivery: ClaimedDelivery, after_s: float, now: datetime) -> bool:
    # An attempt whose worker died is made again. And who redrives a dead letter wants it called, however old it is.
    is_first = delivery.claims - delivery.given_back <= 1 and delivery.redriven_at is None
    return is_first and (now - delivery.due_date).total_seconds() > after_s


def backoff_s(attempt: int, policy: Policy, *, jitter: Jitter = random.uniform) -> float:
    """Return the pause after failed `attempt`: exponential, with full jitter between the bounds."""
    limit_s = min(policy.retry_max_s, policy.retry_min_s * 2.0 ** min(attempt - 1, 60))
    return jitter(policy.retry_min_s, limit_s)


def _again(
    delivery: ClaimedDelivery,
    policy: Policy,
    *,
    now: datetime,
    delay_s: float,
    duration_s: float,
    reason: str,
) -> Settlement:
    failed = delivery.failed_attempts + 1
    most = delivery.attempts_max or policy.max_attempts
    next_age_s = _age_s(delivery, now) + delay_s
    if failed >= most:
        return _dead(delivery, duration_s, f"{reason} (attempt {failed} of {most})")
    if policy.give_up_after_s is not None and next_age_s > policy.give_up_after_s:
        return _dead(
            delivery, duration_s, f"{reason} (given up: {policy.give_up_after_s:g} s after its firing are over)"
        )
    return Settlement(delivery, None, fails=True, delay_s=delay_s, duration_s=duration_s, reason=reason)


def _age_s(delivery: ClaimedDelivery, now: datetime) -> float:
    return (now - (delivery.redriven_at or delivery.fired_at)).total_seconds()


def _dead(delivery: ClaimedDelivery, duration_s: float, reason: str) -> Settlement:
    return Settlement(delivery, Ending.DEAD, fails=True, duration_s=duration_s, reason=reason)
