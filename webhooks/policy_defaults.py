"""Check a tenant's policy for an endpoint, and complete it with defaults."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shardclock import InvalidHandler, Policy
from shardclock.policy import number, whole
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import TIMEOUT_S

# The default values: 20 attempts take about two days. In a long outage, most deliveries have fewer attempts, because an
# open circuit breaker lets only probes pass.
POLICY: Mapping[str, Any] = {
    "max_attempts": 20, "timeout_s": TIMEOUT_S, "retry_min_s": 5.0, "retry_max_s": 43_200.0,
    "give_up_after_s": 259_200.0, "expires_after_s": None, "concurrency": 50, "rate_per_s": None,
    "batch": 1, "priority": 2, "num_cpus": None, "memory_mib": None,
}  # fmt: skip


class PolicyBounds(NamedTuple):
    """The bounds of one number in an endpoint's policy."""

    read: Callable[[str, Any, Any, Any], Any]
    least: float
    most: float
    may_be_null: bool = False


# The same bounds as in `policy_is_within_bounds` (sql/schema/0005_deliveries.sql). `check_endpoint` checks the tighter
# bounds of the timeout.
RULES: Mapping[str, PolicyBounds] = {
    "max_attempts": PolicyBounds(whole, 1, 1_000),
    "timeout_s": PolicyBounds(number, 0, 86_400),
    "retry_min_s": PolicyBounds(number, 0.001, 86_400),
    "retry_max_s": PolicyBounds(number, 0.001, 2_592_000),
    "give_up_after_s": PolicyBounds(number, 0.1, 31_536_000, may_be_null=True),
    "expires_after_s": PolicyBounds(number, 0.1, 31_536_000, may_be_null=True),
    "concurrency": PolicyBounds(whole, 1, 1_000),
    "rate_per_s": PolicyBounds(number, 0.001, 100_000, may_be_null=True),
}


class InvalidPolicy(Refusal):
    """The policy of an endpoint is refused."""


def policy_of(stored: Mapping[str, Any]) -> Policy:
    """Check a stored policy, and complete it with the defaults.

    errors:  InvalidPolicy  the message names the fault
    """
    if not isinstance(stored, dict):
        raise InvalidPolicy(f"policy {shortened(stored)} is refused: it must be an object")
    try:
        return Policy(**{**POLICY, **{name: _read(name, stored[name]) for name in RULES if name in stored}})
    except InvalidHandler as refusal:
        raise InvalidPolicy(f"policy is refused: {refusal}") from None


def _read(name: str, value: object) -> float | None:
    rule = RULES[name]
    if value is None and rule.may_be_null:
        return None
    read: float = rule.read(name, value, rule.least, rule.most)
    return read
