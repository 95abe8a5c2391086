"""Provide the dependencies of the console's routes that find the viewer of a page and check the viewer's scope.

The gateway accepts a change only if the browser reports a page of the console as the sender. Because of this check,
forms need no secret token, so all viewers of a tenant with the same scopes can share a page.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from shardclock.api.codes import CONFLICT, NOT_ALLOWED
from shardclock_server.gateway.access import admit, admit_bulk, admit_operator
from shardclock_server.gateway.console.forms import read_form
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.callers import OWN_SITES, Caller
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.origins import is_own_origin
from shardclock_server.gateway.requests.paths import refuse_unreadable_path
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.queries import known_query
from shardclock_server.gateway.requests.recording import SAFE_METHODS
from shardclock_server.timers.refusal import shortened


class SignInNeeded(Exception):
    """The request has no valid session, so the browser must go to the sign-in page."""


async def require_own_page(request: Request) -> None:
    """Refuse an undecodable path, a change with an unknown query parameter, and a change from a foreign web page.

    `Sec-Fetch-Site` comes from the browser, and a page can't set this header. A browser without this header, or a
    browser that uses plain HTTP, names the page in `Origin`.

    errors:  Problem
    """
    if request.method in SAFE_METHODS:
        refuse_unreadable_path(request)  # each page validates its query, because the query is the page's filter
        return
    await known_query(request)
    site, origin = header_of(request.headers, "Sec-Fetch-Site"), header_of(request.headers, "Origin")
    if site is not None:
        if site.strip().lower() not in OWN_SITES:
            raise Problem(
                NOT_ALLOWED,
                f"Sec-Fetch-Site {shortened(site)} means that another website sent the request; use the console",
            )
        return
    if origin is None:
        raise Problem(NOT_ALLOWED, "Origin is missing: use the pages of the console in a browser")
    if not is_own_origin(request.headers, gateway_of(request).settings.gateway_url):
        raise Problem(
            NOT_ALLOWED,
            f"Origin {shortened(origin)} is not the console; behind a proxy set SHARDCLOCK_GATEWAY_URL to the address"
            " that browsers use",
        )


async def signed_in(request: Request) -> Caller:
    """Find the caller by the session cookie. If the gateway has no keys, no sign-in is needed.

    errors:  SignInNeeded      the request has no session, or the session has ended
             Problem           a page of another site sent the request to a gateway without keys
             StoreUnavailable  the session can't be read now
    """
    known: Caller | None = getattr(request.state, "viewer", None)
    if known is not None:
        return known
    caller = await gateway_of(request).callers.viewer_of(request.headers, request.cookies)
    if caller is None:
        raise SignInNeeded
    request.state.viewer = caller
    request.state.tenant_id = caller.tenant_id  # the metrics count requests by tenant
    return caller


async def of_shown_tenant(
    request: Request,
    caller: Annotated[Caller, Depends(signed_in)],
    acting_for: str = "",
    shown_on: str = "",
    hidden: str = "",
) -> Caller:
    """Read a form before all other checks; refuse it if the viewer has chosen another tenant since the page's load.

    `acting_for` is the tenant of the form's page; "": the form names no tenant. `shown_on` is the path of this page.
    After a refusal, `refused_form` renders the page again, unless the viewer has chosen another tenant. `hidden` has
    the names of the form's hidden fields, separated by commas; their values are not listed after a refusal.

    errors:  Problem  the form can't be read, or the tenant differs (conflict): nothing was changed
    """
    if request.method in SAFE_METHODS:
        return caller
    is_of_tenant = acting_for in ("", caller.tenant_id)
    request.state.shown_on = shown_on if is_of_tenant else ""
    request.state.hidden = frozenset(hidden.split(","))
    await read_form(request)
    if not is_of_tenant:
        raise Problem(
            CONFLICT,
            f"this page shows tenant {shortened(acting_for)}, and you have chosen tenant {shortened(caller.tenant_id)}"
            " since then; nothing was changed: choose the tenant again, or reload the page",
        )
    return caller


def viewer(scope: str, *, is_bulk: bool = False) -> Callable[..., Awaitable[Caller]]:
    """Create the dependency of a page that needs a scope; quotas and the audit work as for a route of the API.

    `is_bulk`: the page changes all rows that match a filter, and the audit records this change.
    """

    async def require(request: Request, caller: Annotated[Caller, Depends(of_shown_tenant)]) -> Caller:
        await admit(request, caller, scope)
        if request.method not in SAFE_METHODS and scope == "write":
            await gateway_of(request).quotas.take_write(caller.tenant_id)
            if is_bulk:
                admit_bulk(request, caller)
        return caller

    return require


def installation(scope: str) -> Callable[..., Awaitable[Caller]]:
    """Create the dependency of a page about the whole installation; the page needs a key for all tenants."""

    async def require(request: Request, caller: Annotated[Caller, Depends(of_shown_tenant)]) -> Caller:
        admit_operator(request, caller, scope)
        return caller

    return require


Viewer = Annotated[Caller, Depends(viewer("read"))]
Changer = Annotated[Caller, Depends(viewer("write"))]
BulkChanger = Annotated[Caller, Depends(viewer("write", is_bulk=True))]
Manager = Annotated[Caller, Depends(viewer("operate"))]
InstallationViewer = Annotated[Caller, Depends(installation("read"))]
Operator = Annotated[Caller, Depends(installation("operate"))]
Admin = Annotated[Caller, Depends(installation("admin"))]
