"""Endpoints, the receivers of a tenant's webhooks: list, add, change, test, rotate, disable and remove endpoints."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import invalid
from shardclock.api.refusals.tenants import ENDPOINT_IN_USE, UNKNOWN_ENDPOINT
from shardclock_server.gateway.access import Manager, Reader, audited_transaction
from shardclock_server.gateway.answers.endpoints import (
    EndpointAnswer,
    EndpointAttemptAnswer,
    EndpointAttemptsAnswer,
    EndpointChangedAnswer,
    EndpointsAnswer,
    EndpointTestAnswer,
    SecretAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.limits.quotas import endpoints_over_quota
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.shared_fields import MAINTENANCE, ReasonRequest
from shardclock_server.service import endpoints as use_cases
from shardclock_server.service.endpoints import EndpointChange, EndpointInUse, EndpointResult, NewSecret, SentTest
from shardclock_server.sql.endpoints.attempts import find_attempts
from shardclock_server.sql.endpoints.endpoints import EndpointName, EndpointsFull, StoredEndpoint, list_endpoints
from shardclock_server.timers.refusal import Refusal

LISTED_MAX = 1_000
BILLING = {"name": "billing", "url": "https://billing.example.com/hooks"}
FORCE = "force=true makes the change nevertheless"
BY_HAND = "by hand"  # the stored reason for disabling an endpoint, if the request gives no reason

router = APIRouter(prefix="/v1/endpoints", tags=["endpoints"])

Force = Annotated[bool, Query(description="remove or disable the endpoint even if pending timers name it")]


class EndpointLimits(BaseModel):
    """The policy of an endpoint; a missing field has its default."""

    model_config = ConfigDict(extra="forbid")

    concurrency: int | None = Field(None, description="the limit of concurrent calls by one worker", examples=[50])
    rate_per_s: float | None = Field(None, description="the limit of calls a second by one worker; null: no limit")
    timeout_s: float | None = Field(None, description="the time limit of a call", examples=[15])
    max_attempts: int | None = Field(None, examples=[20])
    expires_after_s: float | None = Field(
        None,
        description="the longest time from the due date to the start of the first attempt; null: no limit",
        examples=[600],
    )
    give_up_after_s: float | None = Field(
        None,
        description="the longest time from the firing to the start of an attempt; null: no limit",
        examples=[259_200],
    )
    retry_min_s: float | None = Field(
        None, description="the pause after the first failure, and the shortest pause", examples=[5]
    )
    retry_max_s: float | None = Field(None, description="the longest pause", examples=[43_200])


class AddEndpointRequest(BaseModel):
    """A new endpoint."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["billing"])
    url: str = Field(examples=["https://billing.example.com/hooks"])
    headers: dict[str, str] = Field(default_factory=dict, description="headers of each webhook")
    secret: str | None = Field(None, description="the secret that signs webhooks, whsec_…; null: a new secret")
    asymmetric: bool = Field(
        False, description="sign with a key pair (v1a), so that the receiver has only the public key"
    )
    policy: EndpointLimits = Field(default_factory=EndpointLimits)


class ChangeEndpointRequest(BaseModel):
    """The changes of an endpoint; a missing field leaves the setting unchanged."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(None, examples=["https://billing.example.com/hooks"])
    headers: dict[str, str] | None = Field(None, description="the new headers, which replace all headers")
    policy: EndpointLimits = Field(default_factory=EndpointLimits)


class RotateSecretRequest(BaseModel):
    """The kind of the new secret."""

    model_config = ConfigDict(extra="forbid")

    asymmetric: bool = False


def endpoint_of(name: str, caller: Caller) -> EndpointName:
    """Return the name of an endpoint of the caller's tenant."""
    return EndpointName(caller.tenant_id, name)


def unless_in_use(changed: EndpointResult | EndpointInUse, *, confirm: str) -> EndpointResult:
    """Return the result of a change; `confirm` tells the caller how to make the change although timers wait.

    errors:  Refusal  endpoint_in_use
    """
    if isinstance(changed, EndpointInUse):
        raise Refusal(f"{changed.sentence}; {confirm}", code=ENDPOINT_IN_USE, pending_timers=changed.timers)
    return changed


@router.get("", operation_id="list_endpoints", response_model=EndpointsAnswer)
async def list_all(
    gateway: CurrentGateway, caller: Reader, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100
) -> Response:
    """List endpoints, by name, without their secrets and headers."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_endpoints(session, tenant_id=caller.tenant_id, whole_urls=caller.sees_urls, limit=limit)
    return await listing(EndpointsAnswer, "endpoints", map(EndpointAnswer.of, found))


@router.post(
    "", operation_id="add_endpoint", status_code=201, openapi_extra=body_of(AddEndpointRequest, example=BILLING)
)
async def add(request: Request, gateway: CurrentGateway, caller: Manager) -> SecretAnswer:
    """Add an endpoint; its receiver verifies webhooks with `secret`, which is shown only once."""
    asked = await read_model(request, AddEndpointRequest)
    if asked.secret is not None and asked.asymmetric:
        raise Refusal.of(invalid("asymmetric"), why="does not go with a secret, which has its own kind; leave it out")
    wanted = use_cases.new_endpoint(
        endpoint_of(asked.name, caller),
        asked.url,
        headers=asked.headers,
        secret=use_cases.generate_secret(asymmetric=asked.asymmetric) if asked.secret is None else asked.secret,
        policy=asked.policy.model_dump(exclude_unset=True),
        rules=gateway.settings.endpoint_rules,
    )
    return SecretAnswer.of(await add_within_quota(request, gateway, caller, wanted))


async def add_within_quota(request: Request, gateway: Gateway, caller: Caller, wanted: StoredEndpoint) -> NewSecret:
    """Add an endpoint to the caller's tenant, unless the tenant has its largest number of endpoints."""
    most = (await gateway.quotas.limits_of(caller.tenant_id)).endpoints_max
    async with audited_transaction(request, caller.tenants) as session:
        try:
            return await use_cases.add(session, wanted, most=most)
        except EndpointsFull:
            raise endpoints_over_quota(caller.tenant_id, most or 0) from None


@router.get("/{name}", operation_id="get_endpoint")
async def get(name: Name, gateway: CurrentGateway, caller: Reader) -> EndpointAnswer:
    """Show an endpoint."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_endpoints(
            session, tenant_id=caller.tenant_id, name=name, whole_urls=caller.sees_urls, limit=1
        )
    if not found:
        raise Refusal.of(UNKNOWN_ENDPOINT, tenant_id=caller.tenant_id, name=name)
    return EndpointAnswer.of(found[0])


@router.get("/{name}/attempts", operation_id="list_attempts", response_model=EndpointAttemptsAnswer)
async def list_attempts(name: Name, gateway: CurrentGateway, caller: Reader) -> Response:
    """List the last 20 attempts and test sends of an endpoint, each with the first 2 KiB of the answer.

    A worker writes attempts to the database once a second, so the newest attempts may be missing.
    """
    async with gateway.pool.session(caller.tenants) as session:
        if not await list_endpoints(session, tenant_id=caller.tenant_id, name=name, limit=1):
            raise Refusal.of(UNKNOWN_ENDPOINT, tenant_id=caller.tenant_id, name=name)
        found = await find_attempts(session, endpoint_of(name, caller))
    return await listing(EndpointAttemptsAnswer, "attempts", map(EndpointAttemptAnswer.of, found))


@router.patch(
    "/{name}",
    operation_id="change_endpoint",
    openapi_extra=body_of(ChangeEndpointRequest, example={"policy": {"concurrency": 20}}),
)
async def change(name: Name, request: Request, gateway: CurrentGateway, caller: Manager) -> EndpointChangedAnswer:
    """Change an endpoint; the change also applies to pending deliveries."""
    asked = await read_model(request, ChangeEndpointRequest)
    wanted = EndpointChange(asked.url, asked.headers, asked.policy.model_dump(exclude_unset=True))
    async with audited_transaction(request, caller.tenants) as session:
        done = await use_cases.change(session, endpoint_of(name, caller), wanted, rules=gateway.settings.endpoint_rules)
        return EndpointChangedAnswer.of(done)


@router.delete("/{name}", operation_id="remove_endpoint")
async def remove(request: Request, name: Name, caller: Manager, force: Force = False) -> EndpointChangedAnswer:
    """Remove an endpoint: its pending deliveries become dead letters."""
    async with audited_transaction(request, caller.tenants) as session:
        done = await use_cases.remove(session, endpoint_of(name, caller), force=force)
        return EndpointChangedAnswer.of(unless_in_use(done, confirm=FORCE))


@router.post(
    "/{name}/disable",
    operation_id="disable_endpoint",
    openapi_extra=body_of(ReasonRequest, is_needed=False, example=MAINTENANCE),
)
async def disable(name: Name, request: Request, caller: Manager, force: Force = False) -> EndpointChangedAnswer:
    """Disable an endpoint: its deliveries become dead letters, and new timers can't name it."""
    asked = await read_model(request, ReasonRequest)
    async with audited_transaction(request, caller.tenants) as session:
        done = await use_cases.disable(session, endpoint_of(name, caller), why=asked.reason or BY_HAND, force=force)
        return EndpointChangedAnswer.of(unless_in_use(done, confirm=FORCE))


@router.post("/{name}/enable", operation_id="enable_endpoint")
async def enable(request: Request, name: Name, caller: Manager) -> EndpointChangedAnswer:
    """Enable an endpoint that an operator has disabled, or that answered 410."""
    async with audited_transaction(request, caller.tenants) as session:
        return EndpointChangedAnswer.of(await use_cases.enable(session, endpoint_of(name, caller)))


@router.post(
    "/{name}/rotate",
    operation_id="rotate_endpoint",
    openapi_extra=body_of(RotateSecretRequest, is_needed=False, example={"asymmetric": False}),
)
async def rotate(name: Name, request: Request, caller: Manager) -> SecretAnswer:
    """Add a secret, which is shown once; until the rotation ends, the old secrets also sign webhooks."""
    asked = await read_model(request, RotateSecretRequest)
    async with audited_transaction(request, caller.tenants) as session:
        return SecretAnswer.of(await use_cases.rotate(session, endpoint_of(name, caller), asymmetric=asked.asymmetric))


@router.post("/{name}/end-rotation", operation_id="end_rotation")
async def end_rotation(request: Request, name: Name, caller: Manager) -> EndpointChangedAnswer:
    """Drop all secrets of an endpoint except the newest."""
    async with audited_transaction(request, caller.tenants) as session:
        return EndpointChangedAnswer.of(await use_cases.end_rotation(session, endpoint_of(name, caller)))


@router.post("/{name}/test", operation_id="test_endpoint")
async def test(name: Name, gateway: CurrentGateway, caller: Manager) -> EndpointTestAnswer:
    """Send one test webhook from the gateway now, and show the response of the endpoint."""
    tried = await send_own_test(gateway, caller, name)
    return EndpointTestAnswer(delivered=tried.delivered, message=tried.answer, duration_s=tried.duration_s)


async def send_own_test(gateway: Gateway, caller: Caller, name: str) -> SentTest:
    """Send one test webhook to an endpoint of the caller's tenant, and store the test send.

    errors:  as `find_open`
    """
    key, rules = endpoint_of(name, caller), gateway.settings.endpoint_rules
    async with gateway.pool.session(caller.tenants) as session:
        endpoint = await use_cases.find_open(session, key, rules=rules)
    # Release the session during the test, because other requests need it.
    tried = await use_cases.send_test(endpoint, key, rules=rules)
    async with gateway.pool.session(caller.tenants) as session:
        await use_cases.keep_test(session, tried)
    return tried
