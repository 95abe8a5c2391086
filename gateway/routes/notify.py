"""Subscribe endpoints to events for operators."""

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Manager, Reader, audited_transaction
from shardclock_server.gateway.answers.endpoints import EndpointTestAnswer
from shardclock_server.gateway.answers.notify import (
    EventSubscriptionAnswer,
    EventSubscriptionChangedAnswer,
    EventSubscriptionsAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.service import notify as use_cases
from shardclock_server.service.endpoints import SentTest, keep_test
from shardclock_server.service.notify import FAILURES_MIN
from shardclock_server.sql.endpoints.endpoints import EndpointName
from shardclock_server.sql.notify.events import OPERATOR_KINDS
from shardclock_server.sql.notify.subscriptions import find_subscriptions
from shardclock_server.sql.session import Session

LISTED_MAX = 1_000

router = APIRouter(prefix="/v1/notify", tags=["notify"])


class SubscribeRequest(BaseModel):
    """The kinds of events for operators that the endpoint gets."""

    model_config = ConfigDict(extra="forbid")

    kinds: list[str] = Field(examples=[["delivery.dead", "job.failed"]])
    failures_min: int = Field(
        FAILURES_MIN,
        description="for job.failed: the number of failed runs in a row that causes the first event",
        examples=[3],
    )
    text_only: bool = Field(False, description="send only the text, for a receiver that refuses other fields")


@router.get("", operation_id="list_subscriptions", response_model=EventSubscriptionsAnswer)
async def list_all(
    gateway: CurrentGateway, caller: Reader, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100
) -> Response:
    """List the endpoints that get events for operators, by name."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await find_subscriptions(session, tenant_id=caller.tenant_id, whole_urls=caller.sees_urls, limit=limit)
    return await listing(EventSubscriptionsAnswer, "subscriptions", map(EventSubscriptionAnswer.of, found))


@router.put(
    "/{name}",
    operation_id="subscribe_endpoint",
    openapi_extra=body_of(SubscribeRequest, example={"kinds": ["delivery.dead"]}),
)
async def subscribe(name: Name, request: Request, caller: Manager) -> EventSubscriptionChangedAnswer:
    """Subscribe an endpoint to these kinds of events; they replace the endpoint's earlier kinds.

    Events of jobs and of the cluster need a key for all tenants, and an endpoint of the tenant `default`.
    """
    asked = await read_model(request, SubscribeRequest)
    wanted = use_cases.new_subscription(
        EndpointName(caller.tenant_id, name), asked.kinds, failures_min=asked.failures_min, text_only=asked.text_only
    )
    require_operator_for(caller, wanted.kinds)
    async with audited_transaction(request, caller.tenants) as session:
        await refuse_operators_subscription(session, caller, name)
        return EventSubscriptionChangedAnswer.of(await use_cases.subscribe(session, wanted))


@router.delete("/{name}", operation_id="unsubscribe_endpoint")
async def unsubscribe(name: Name, request: Request, caller: Manager) -> EventSubscriptionChangedAnswer:
    """Send no more events to an endpoint; the endpoint is not removed."""
    async with audited_transaction(request, caller.tenants) as session:
        await refuse_operators_subscription(session, caller, name)
        done = await use_cases.unsubscribe(session, EndpointName(caller.tenant_id, name))
        return EventSubscriptionChangedAnswer.of(done)


@router.post("/{name}/test", operation_id="test_subscription")
async def test(name: Name, gateway: CurrentGateway, caller: Manager) -> EndpointTestAnswer:
    """Send one test event from the gateway now, and show the response of the endpoint."""
    tried = await send_own_test_event(gateway, caller, name)
    return EndpointTestAnswer(delivered=tried.delivered, message=tried.answer, duration_s=tried.duration_s)


async def send_own_test_event(gateway: Gateway, caller: Caller, name: str) -> SentTest:
    """Send one test event to an endpoint of the caller's tenant, and store the test send.

    errors:  as `prepare_test`
    """
    rules = gateway.settings.endpoint_rules
    async with gateway.pool.session(caller.tenants) as session:
        prepared = await use_cases.prepare_test(session, EndpointName(caller.tenant_id, name), rules=rules)
    # Release the session during the test, because other requests need it.
    tried = await use_cases.send_test_event(prepared, rules=rules)
    async with gateway.pool.session(caller.tenants) as session:
        await keep_test(session, tried)
    return tried


async def refuse_operators_subscription(session: Session, caller: Caller, name: str) -> None:
    """Refuse a caller of one tenant if a subscription includes events of jobs or of the cluster.

    errors:  Problem           the caller belongs to one tenant
             StoreUnavailable  Postgres did not answer within the timeout
    """
    for found in await find_subscriptions(session, tenant_id=caller.tenant_id, endpoint=name, limit=1):
        require_operator_for(caller, found.kinds)


def require_operator_for(caller: Caller, kinds: Collection[str]) -> None:
    """Refuse events of jobs and of the cluster, unless the caller's key is for all tenants.

    errors:  Problem  the caller's key is for one tenant, and a kind of event is for the whole installation
    """
    if set(OPERATOR_KINDS).intersection(kinds):
        caller.require_operator()
