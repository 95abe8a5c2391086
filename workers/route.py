"""Check a stored endpoint: return a route, or the reason why the endpoint gets no deliveries."""

from dataclasses import dataclass, replace
from typing import Self

from shardclock import Policy
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint
from shardclock_server.timers.refusal import Refusal
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules, check_endpoint
from shardclock_server.webhooks.policy_defaults import policy_of


@dataclass(frozen=True, slots=True)
class Route:
    """A checked endpoint and its policy.

    If `endpoint` is None, the route is closed: no delivery is sent, and `closed_reason` has the reason. If the reason
    `is_final`, the deliveries become dead letters. If the reason is not final, each attempt fails and is retried,
    because an operator may allow the endpoint again.
    """

    stored: StoredEndpoint | None
    policy: Policy
    endpoint: Endpoint | None = None
    closed_reason: str | None = None
    is_final: bool = False

    def closed(self, why: str) -> Self:
        """Return a closed route with a final reason."""
        return replace(self, endpoint=None, closed_reason=why, is_final=True)


def route_of(stored: StoredEndpoint | None, rules: EndpointRules) -> Route:
    """Check a stored endpoint; None: there is no row.

    For an invalid row the result is a closed route: an exception would also stop the deliveries of other endpoints.
    """
    if stored is None:
        return Route(None, policy_of({})).closed("the endpoint does not exist: it was removed, or never added")
    route = Route(stored, policy_of({}))
    if stored.why_closed is not None:
        return route.closed(stored.why_closed)
    try:
        route = replace(route, policy=policy_of(stored.policy))
        timeout_s = route.policy.timeout_s
        endpoint = check_endpoint(stored.url, stored.headers, stored.secrets, timeout_s=timeout_s, rules=rules)
    except Refusal as refusal:
        return replace(route, closed_reason=str(refusal))
    return replace(route, endpoint=endpoint)
