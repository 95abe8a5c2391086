"""By which policy an endpoint's webhooks are sent: what its tenant said of it, checked and completed."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shardclock import InvalidHandler, Policy
from shardclock.policy import number, whole
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import TIMEOUT_S

# What an endpoint's policy doesn't say. 20 attempts take about two days; but while a breaker is open there are only
# probes, so that of most deliveries fewer are made.
POLICY: Mapping[str, Any] = {
    "max_attempts": 20, "timeout_s": TIMEOUT_S, "retry_min_s": 5.0, "retry_max_s": 43_200.0,
    "give_up_after_s": 259_200.0, "expires_after_s": None, "concurrency": 50, "rate_per_s": None,
    "batch": 1, "priority": 2, "num_cpus": None, "memory_mib": None,
}  # fmt: skip


class Rule(NamedTuple):
    """What a number of an endpoint's policy may be."""

    read: Callable[[str, Any, Any, Any], Any]
    least: float
    most: float
    may_be_null: bool = False


# The same bounds as in `policy_is_within_bounds` (sql/schema/0005_deliveries.sql). `check_endpoint` has those of the
# timeout.
RULES: Mapping[str, Rule] = {
    "max_attempts": Rule(whole, 1, 1_000),
    "timeout_s": Rule(number, 0, 86_400),
    "retry_min_s": Rule(number, 0.001, 86_400),
    "retry_max_s": Rule(number, 0.001, 2_592_000),
    "give_up_after_s": Rule(number, 0.1, 31_536_000, may_be_null=True),
    "expires_after_s": Rule(number, 0.1, 31_536_000, may_be_null=True),
    "concurrency": Rule(whole, 1, 1_000),
    "rate_per_s": Rule(number, 0.001, 100_000, may_be_null=True),
}


class InvalidPolicy(Refusal):
    """Refuse the policy of an endpoint."""


def policy_of(said: Mapping[str, Any]) -> Policy:
    """Complete what was said about an endpoint's policy.

    errors:  InvalidPolicy  says in one sentence what is wrong with it
    """
    if not isinstance(said, dict):
        raise InvalidPolicy(f"policy {shortened(said)} is refused: it must be an object")
    try:
        return Policy(**{**POLICY, **{name: _read(name, said[name]) for name in RULES if name in said}})
    except InvalidHandler as refusal:
        raise InvalidPolicy(f"policy is refused: {refusal}") from None


def _read(name: str, value: object) -> float | None:
    rule = RULES[name]
    if value is None and rule.may_be_null:
        return None
    read: float = rule.read(name, value, rule.least, rule.most)
    return read
