"""The links of the console's menu."""

from collections.abc import Collection
from dataclasses import dataclass

from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.service.keys import allows


@dataclass(frozen=True, slots=True)
class Link:
    """A link of the menu, and its `scope`; with `is_installation`, the viewer also needs a key for all tenants."""

    label: str
    path: str
    is_installation: bool = False
    scope: str = "read"


# The menu omits a link if no page has the path of the link.
LINKS = (
    Link("Overview", "/"),
    Link("Timers", "/timers"),
    Link("Schedules", "/schedules"),
    Link("Deliveries", "/deliveries"),
    Link("Dead letters", "/dead-letters"),
    Link("Endpoints", "/endpoints"),
    Link("Jobs", "/jobs", is_installation=True),
    Link("Processes", "/processes"),
    Link("Instances", "/instances"),
    Link("Tasks", "/tasks"),
    Link("Operations", "/operations"),
    Link("Audit", "/audit", is_installation=True, scope="admin"),
    Link("Log", "/log"),
    Link("Cluster", "/cluster", is_installation=True, scope="operate"),
    Link("Tenants", "/tenants", is_installation=True, scope="admin"),
    Link("Keys", "/keys", is_installation=True, scope="admin"),
)


def links_for(caller: Caller, paths: Collection[str]) -> list[Link]:
    """List the links of the pages that exist and that the caller may open."""
    return [
        link
        for link in LINKS
        if link.path in paths and (caller.is_operator or not link.is_installation) and allows(caller.scopes, link.scope)
    ]
