"""How deliveries reach an endpoint, or why they don't: the stored endpoint, checked."""

from dataclasses import dataclass, replace
from typing import Self

from shardclock import Policy
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint
from shardclock_server.timers.refusal import Refusal
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules, check_endpoint
from shardclock_server.webhooks.policy import policy_of


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


def route_of(stored: StoredEndpoint | None, rules: EndpointRules) -> Route:
    """Check a stored endpoint; None: there is none.

    Whatever the row holds is a route: one that raised would keep a worker from all other endpoints.
    """
    if stored is None:
        return Route(None, policy_of({})).closed("there is no such endpoint: it was removed, or never added")
    route = Route(stored, policy_of({}))
    if stored.why_closed is not None:
        return route.closed(stored.why_closed)
    try:
        route = replace(route, policy=policy_of(stored.policy))
        timeout_s = route.policy.timeout_s
        endpoint = check_endpoint(stored.url, stored.headers, stored.secrets, timeout_s=timeout_s, rules=rules)
    except Refusal as refusal:
        return replace(route, why_not=str(refusal))
    return replace(route, endpoint=endpoint)
