"""The forms on an endpoint's page about events for operators: subscribe, unsubscribe and send a test event."""

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.console.access import Manager
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, form_of
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.routes.notify import (
    refuse_operators_subscription,
    require_operator_for,
    send_own_test_event,
)
from shardclock_server.service import notify as use_cases
from shardclock_server.service.notify import FAILURES_MIN
from shardclock_server.sql.endpoints.endpoints import EndpointName
from shardclock_server.sql.notify.events import EVENT_KINDS, OPERATORS_TENANT, TENANT_KINDS

router = page_router()


class SubscribeForm(BaseModel):
    """The kinds of events for operators that the endpoint gets."""

    model_config = ConfigDict(extra="forbid")

    kinds: list[str] = []
    failures_min: int = FAILURES_MIN
    text_only: bool = False


@router.post("/endpoints/{name}/subscribe")
async def subscribe(name: Name, request: Request, caller: Manager) -> Response:
    """Send events of the ticked kinds to the endpoint."""
    asked = await form_of(request, SubscribeForm)
    wanted = use_cases.new_subscription(
        EndpointName(caller.tenant_id, name), asked.kinds, failures_min=asked.failures_min, text_only=asked.text_only
    )
    require_operator_for(caller, wanted.kinds)
    async with audited_transaction(request, caller.tenants) as session:
        await refuse_operators_subscription(session, caller, name)
        changed = await use_cases.subscribe(session, wanted)
    return _done(request, name, changed.sentence)


@router.post("/endpoints/{name}/unsubscribe")
async def unsubscribe(name: Name, request: Request, caller: Manager) -> Response:
    """Send no more events to the endpoint."""
    async with audited_transaction(request, caller.tenants) as session:
        await refuse_operators_subscription(session, caller, name)
        changed = await use_cases.unsubscribe(session, EndpointName(caller.tenant_id, name))
    return _done(request, name, changed.sentence)


@router.post("/endpoints/{name}/test-event")
async def test_event(name: Name, request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Send one test event from the gateway, and show the answer as the message."""
    tried = await send_own_test_event(gateway, caller, name)
    outcome = "was accepted" if tried.delivered else "was not accepted"
    return _done(request, name, f"the test event {outcome}: {tried.answer}, after {tried.duration_s:.2f} s")


def kinds_for(caller: Caller) -> tuple[str, ...]:
    """Return the kinds of events to which a caller may subscribe an endpoint."""
    return EVENT_KINDS if caller.is_operator and caller.tenant_id == OPERATORS_TENANT else TENANT_KINDS


def _done(request: Request, name: str, sentence: str) -> Response:
    return done(request, url_of(request, "/endpoints/{}", name), sentence)
