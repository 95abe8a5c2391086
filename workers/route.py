"""How deliveries reach an endpoint, or why they don't: the stored endpoint, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from shardclock import Policy
from sql.endpoints.endpoints import StoredEndpoint
from timers.refusal import Refusal
from workers.webhooks.endpoint import TIMEOUT_S, Endpoint, EndpointRules, check_endpoint

# What an endpoint's policy doesn't say. 20 attempts take about two days.
POLICY: Mapping[str, Any] = {
    "max_attempts": 20, "timeout_s": TIMEOUT_S, "retry_min_s": 5.0, "retry_max_s": 43_200.0, "give_up_after_s": None,
    "expires_after_s": None, "concurrency": 50, "rate_per_s": None, "batch": 1, "priority": 2,
    "num_cpus": None, "memory_mib": None,
}  # fmt: skip


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
    """Complete what was said about an endpoint's policy."""
    return Policy(**{**POLICY, **{name: value for name, value in said.items() if name in POLICY}})


def route_of(stored: StoredEndpoint | None, rules: EndpointRules) -> Route:
    """Check a stored endpoint; None: there is none."""
    if stored is None:
        return Route(None, policy_of({})).closed("the endpoint was removed")
    route = Route(stored, policy_of(stored.policy))
    if stored.disabled_at is not None:
        return route.closed(f"the endpoint is disabled: {stored.disabled_why}")
    try:
        timeout_s = route.policy.timeout_s
        endpoint = check_endpoint(stored.url, stored.headers, stored.secrets, timeout_s=timeout_s, rules=rules)
    except Refusal as refusal:
        return replace(route, why_not=str(refusal))
    return replace(route, endpoint=endpoint)
