"""Pages of endpoints: list endpoints; add, show, change, test, rotate, disable, enable and remove one endpoint."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.refusals.tenants import UNKNOWN_ENDPOINT
from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.console.access import Manager, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.pages.excerpts import first_line
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.pages.subscriptions import kinds_for
from shardclock_server.gateway.console.past import read_past
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.shared_fields import TIMERS_PAGE
from shardclock_server.gateway.routes.endpoints import (
    BY_HAND,
    EndpointLimits,
    RotateSecretRequest,
    add_within_quota,
    endpoint_of,
    send_own_test,
    unless_in_use,
)
from shardclock_server.service import deliveries
from shardclock_server.service import endpoints as use_cases
from shardclock_server.service.endpoints import EndpointChange, EndpointResult, NewSecret
from shardclock_server.service.notify import FAILURES_MIN
from shardclock_server.sql.clients.search import TimerFilter, find_timers
from shardclock_server.sql.deliveries.find import DeliveryFilter
from shardclock_server.sql.endpoints.attempts import find_attempts
from shardclock_server.sql.endpoints.endpoints import EndpointName, ListedEndpoint, list_endpoints
from shardclock_server.sql.notify.subscriptions import find_subscriptions
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from shardclock_server.webhooks.policy_defaults import POLICY, RULES

FAILING_SHOWN = 10
COMING_SHOWN = 5
ANSWER_CHARS = 120
FORCE = "tick “even if timers name it” to confirm"

router = page_router()


class EndpointsFilter(BaseModel):
    """The cursor of a page of endpoints."""

    model_config = ConfigDict(extra="forbid")

    after: str | None = None


class AddEndpointForm(BaseModel):
    """A new endpoint with the default policy."""

    model_config = ConfigDict(extra="forbid")

    name: str
    url: str
    asymmetric: bool = False


class ChangeEndpointForm(EndpointLimits):
    """The changes of an endpoint; an empty field leaves the setting unchanged."""

    url: str | None = None


class CloseEndpointForm(BaseModel):
    """The reason for disabling an endpoint, and whether to disable it although timers name it."""

    model_config = ConfigDict(extra="forbid")

    reason: str | None = None
    force: bool = False


@router.get("/endpoints")
async def list_all(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List endpoints with their state and their failing deliveries."""
    asked = filter_of(request, EndpointsFilter)
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_endpoints(
            session,
            tenant_id=caller.tenant_id,
            after_name=asked.model.after,
            whole_urls=caller.sees_urls,
            limit=ROWS + 1,
        )
    after = found[ROWS - 1].name if len(found) > ROWS else None
    return page(
        request,
        caller,
        "endpoints.html",
        title="Endpoints",
        endpoints=found[:ROWS],
        **list_values(request, "/endpoints", asked, after),
    )


@router.post("/endpoints")
async def add(request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Add an endpoint, and show its secret once."""
    asked = await form_of(request, AddEndpointForm)
    key = endpoint_of(asked.name, caller)
    wanted = use_cases.new_endpoint(
        key,
        asked.url,
        headers={},
        secret=use_cases.generate_secret(asymmetric=asked.asymmetric),
        policy={},
        rules=gateway.settings.endpoint_rules,
    )
    return _secret_page(request, caller, key, await add_within_quota(request, gateway, caller, wanted))


@router.get("/endpoints/{name}")
async def show(request: Request, name: Name, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show an endpoint with its settings, the kinds of its secrets, its failing deliveries and its next timers."""
    key = endpoint_of(name, caller)
    failing = DeliveryFilter(target=key.target, tenant_id=caller.tenant_id, failing=True)
    pending = TimerFilter(target=key.target, tenant_id=caller.tenant_id)
    async with gateway.pool.session(caller.tenants) as session:
        endpoint = await _listed(session, key, whole_url=caller.sees_urls)
        signing = await use_cases.read_signing_facts(session, key)
        found = await deliveries.page_of(session, failing, size=FAILING_SHOWN)
        attempts = await find_attempts(session, key)
        coming = await find_timers(session, "PENDING", pending, size=COMING_SHOWN, limits=TIMERS_PAGE)
        past = await read_past(session, key.tenant_id, is_operator=False, target=key.target)
        subscriptions = await find_subscriptions(session, tenant_id=key.tenant_id, endpoint=name, limit=1)
    return page(
        request,
        caller,
        "endpoint.html",
        subscription=subscriptions[0] if subscriptions else None,
        event_kinds=kinds_for(caller),
        failures_min=FAILURES_MIN,
        title=f"Endpoint {name}",
        endpoint=endpoint,
        target=key.target,
        past=past,
        coming=coming.timers,
        settings=_settings_of(endpoint),
        signing=signing,
        deliveries=[(it, first_line(it.last_error)) for it in found.deliveries],
        attempts=[(it, first_line(it.failure or it.body, ANSWER_CHARS)) for it in attempts],
    )


@router.get("/endpoints/{name}/attempts")
async def show_attempts(request: Request, name: Name, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show the last 20 attempts and test sends of an endpoint, each with the first 2 KiB of the answer."""
    key = endpoint_of(name, caller)
    async with gateway.pool.session(caller.tenants) as session:
        await _listed(session, key)
        attempts = await find_attempts(session, key)
    return page(
        request, caller, "endpoint_attempts.html", title=f"Attempts of endpoint {name}", name=name, attempts=attempts
    )


@router.post("/endpoints/{name}/change")
async def change(name: Name, request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Change the URL or the policy of an endpoint."""
    asked = (await form_of(request, ChangeEndpointForm)).model_dump(exclude_unset=True)
    wanted = EndpointChange(asked.pop("url", None), None, asked)
    async with audited_transaction(request, caller.tenants) as session:
        changed = await use_cases.change(
            session, endpoint_of(name, caller), wanted, rules=gateway.settings.endpoint_rules
        )
    return _done(request, name, changed)


@router.post("/endpoints/{name}/disable")
async def disable(name: Name, request: Request, caller: Manager) -> Response:
    """Disable an endpoint."""
    asked = await form_of(request, CloseEndpointForm)
    async with audited_transaction(request, caller.tenants) as session:
        disabled = await use_cases.disable(
            session, endpoint_of(name, caller), why=asked.reason or BY_HAND, force=asked.force
        )
        changed = unless_in_use(disabled, confirm=FORCE)
    return _done(request, name, changed)


@router.post("/endpoints/{name}/enable")
async def enable(name: Name, request: Request, caller: Manager) -> Response:
    """Enable an endpoint."""
    async with audited_transaction(request, caller.tenants) as session:
        changed = await use_cases.enable(session, endpoint_of(name, caller))
    return _done(request, name, changed)


@router.post("/endpoints/{name}/remove")
async def remove(name: Name, request: Request, caller: Manager) -> Response:
    """Remove an endpoint."""
    asked = await form_of(request, CloseEndpointForm)
    async with audited_transaction(request, caller.tenants) as session:
        ended = await use_cases.remove(session, endpoint_of(name, caller), force=asked.force)
        removed = unless_in_use(ended, confirm=FORCE)
    return done(request, url_of(request, "/endpoints"), removed.sentence)


@router.post("/endpoints/{name}/rotate")
async def rotate(name: Name, request: Request, caller: Manager) -> Response:
    """Add a secret, and show the secret once."""
    asked, key = await form_of(request, RotateSecretRequest), endpoint_of(name, caller)
    async with audited_transaction(request, caller.tenants) as session:
        made = await use_cases.rotate(session, key, asymmetric=asked.asymmetric)
    return _secret_page(request, caller, key, made)


@router.post("/endpoints/{name}/end-rotation")
async def end_rotation(name: Name, request: Request, caller: Manager) -> Response:
    """Drop all secrets of an endpoint except the newest."""
    async with audited_transaction(request, caller.tenants) as session:
        changed = await use_cases.end_rotation(session, endpoint_of(name, caller))
    return _done(request, name, changed)


@router.post("/endpoints/{name}/test")
async def test(name: Name, request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Send one test webhook from the gateway, and show the answer as the message."""
    tried = await send_own_test(gateway, caller, name)
    outcome = "was accepted" if tried.delivered else "was not accepted"
    return _done(request, name, EndpointResult(f"the test {outcome}: {tried.answer}, after {tried.duration_s:.2f} s"))


def _secret_page(request: Request, caller: Caller, key: EndpointName, made: NewSecret) -> Response:
    """Show a new secret once; no other page and no cache contains the secret."""
    response = page(
        request, caller, "endpoint_secret.html", title=f"Secret of {key.name}", name=key.name, made=made, live=False
    )
    response.headers["Cache-Control"] = "no-store"
    return response


def _settings_of(endpoint: ListedEndpoint) -> list[tuple[str, Any, bool]]:
    """List the names and the values of a policy, and whether each value is the default."""
    return [(name, endpoint.policy.get(name, POLICY[name]), name not in endpoint.policy) for name in RULES]


async def _listed(session: Session, key: EndpointName, *, whole_url: bool = False) -> ListedEndpoint:
    found = await list_endpoints(session, tenant_id=key.tenant_id, name=key.name, whole_urls=whole_url, limit=1)
    if not found:
        raise Refusal.of(UNKNOWN_ENDPOINT, tenant_id=key.tenant_id, name=key.name)
    return found[0]


def _done(request: Request, name: str, changed: EndpointResult) -> Response:
    return done(request, url_of(request, "/endpoints/{}", name), changed.sentence)
