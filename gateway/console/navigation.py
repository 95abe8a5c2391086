"""The links of the console's menu."""

from collections.abc import Collection
from dataclasses import dataclass

from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.service.keys import allows


@dataclass(frozen=True, slots=True)
class MenuLink:
    """A link of the menu, and its `scope`; with `is_installation`, the viewer also needs a key for all tenants."""

    label: str
    path: str
    is_installation: bool = False
    scope: str = "read"


# The menu omits a link if no page has the path of the link.
LINKS = (
    MenuLink("Overview", "/"),
    MenuLink("Timers", "/timers"),
    MenuLink("Schedules", "/schedules"),
    MenuLink("Deliveries", "/deliveries"),
    MenuLink("Dead letters", "/dead-letters"),
    MenuLink("Endpoints", "/endpoints"),
    MenuLink("Jobs", "/jobs", is_installation=True),
    MenuLink("Processes", "/processes"),
    MenuLink("Instances", "/instances"),
    MenuLink("Tasks", "/tasks"),
    MenuLink("Operations", "/operations"),
    MenuLink("Audit", "/audit", is_installation=True, scope="admin"),
    MenuLink("Log", "/log"),
    MenuLink("Cluster", "/cluster", is_installation=True, scope="operate"),
    MenuLink("Tenants", "/tenants", is_installation=True, scope="admin"),
    MenuLink("Keys", "/keys", is_installation=True, scope="admin"),
)


def links_for(caller: Caller, paths: Collection[str]) -> list[MenuLink]:
    """List the links of the pages that exist and that the caller may open."""
    return [
        link
        for link in LINKS
        if link.path in paths and (caller.is_operator or not link.is_installation) and allows(caller.scopes, link.scope)
    ]
