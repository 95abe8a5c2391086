"""How deliveries reach an endpoint, or why they don't: the stored endpoint, checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from shardclock import InvalidHandler, Policy
from shardclock.policy import number, whole
from sql.endpoints.endpoints import StoredEndpoint
from timers.refusal import Refusal, shortened
from workers.webhooks.endpoint import TIMEOUT_S, Endpoint, EndpointRules, check_endpoint

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


# The same bounds as in `policy_is_within_bounds` (sql/migrations/0010_endpoints.sql). `check_endpoint` has those of the
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


@dataclass(frozen=True, slots=True)
class Route:
    """Where deliveries are sent, and by which policy.

    Without `endpoint` nothing is sent, and `why_not` says why. If that `is_final`, deliveries are dead. Otherwise each
    is a failed attempt, and is tried again: an operator may allow the endpoint again.
    """

    stored: StoredEndpoint | None
    policy: Policy
    endpoint: Endpoint | None = None
    why_not: str | None = None
    is_final: bool = False

    def closed(self, why: str) -> Self:
        """Return the same route, over which nothing is sent any more."""
        return replace(self, endpoint=None, why_not=why, is_final=True)


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


def route_of(stored: StoredEndpoint | None, rules: EndpointRules) -> Route:
    """Check a stored endpoint; None: there is none.

    Whatever the row holds is a route: one that raised would keep a worker from all other endpoints.
    """
    if stored is None:
        return Route(None, policy_of({})).closed("the endpoint was removed")
    route = Route(stored, policy_of({}))
    if stored.disabled_at is not None:
        return route.closed(f"the endpoint is disabled: {stored.disabled_why}")
    try:
        route = replace(route, policy=policy_of(stored.policy))
        timeout_s = route.policy.timeout_s
        endpoint = check_endpoint(stored.url, stored.headers, stored.secrets, timeout_s=timeout_s, rules=rules)
    except Refusal as refusal:
        return replace(route, why_not=str(refusal))
    return replace(route, endpoint=endpoint)


def _read(name: str, value: object) -> float | None:
    rule = RULES[name]
    if value is None and rule.may_be_null:
        return None
    read: float = rule.read(name, value, rule.least, rule.most)
    return read
