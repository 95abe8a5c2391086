"""Endpoints, where the caller's webhooks are sent: look at them, add, change, test, rotate, disable and remove one."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Manager, Reader, acting
from shardclock_server.gateway.answers.endpoints import (
    EndpointAnswer,
    EndpointsAnswer,
    SaidAnswer,
    SecretAnswer,
    TriedAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.limits.quotas import too_many_endpoints
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import MAINTENANCE, ReasonRequest
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.problems import CONFLICT, Problem
from shardclock_server.service import endpoints as use_cases
from shardclock_server.service.endpoints import Done, EndpointChange, StillNamed, UnknownEndpoint
from shardclock_server.sql.endpoints.endpoints import EndpointName, EndpointsFull, list_endpoints
from shardclock_server.timers.refusal import shortened

LISTED_MAX = 1_000
BILLING = {"name": "billing", "url": "https://billing.example.com/hooks"}
BY_HAND = "by hand"  # why an endpoint is disabled, for whoever finds it, if nobody said

router = APIRouter(prefix="/v1/endpoints", tags=["endpoints"])

Force = Annotated[bool, Query(description="do it, even if pending timers name it")]


class EndpointLimits(BaseModel):
    """How an endpoint is treated; what is not given is as usual."""

    model_config = ConfigDict(extra="forbid")

    concurrency: int | None = Field(None, description="at once, from one worker", examples=[50])
    rate_per_s: float | None = Field(None, description="at most, from one worker; null: no limit")
    timeout_s: float | None = Field(None, description="for an answer", examples=[15])
    max_attempts: int | None = Field(None, examples=[20])
    expires_after_s: float | None = Field(
        None, description="no first attempt so long after its due date; null: no limit", examples=[600]
    )
    give_up_after_s: float | None = Field(
        None, description="no attempt so long after its firing; null: no limit", examples=[259_200]
    )
    retry_min_s: float | None = Field(None, description="the first pause, and the least", examples=[5])
    retry_max_s: float | None = Field(None, description="the longest pause", examples=[43_200])


class AddEndpointRequest(BaseModel):
    """An endpoint that is added."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["billing"])
    url: str = Field(examples=["https://billing.example.com/hooks"])
    headers: dict[str, str] = Field(default_factory=dict, description="sent with each webhook")
    secret: str | None = Field(None, description="what they are signed with, whsec_…; null: one is drawn")
    asymmetric: bool = Field(False, description="sign with a key pair (v1a): the receiver gets only the public key")
    policy: EndpointLimits = Field(default_factory=EndpointLimits)


class ChangeEndpointRequest(BaseModel):
    """What is to change of an endpoint; what is not given stays."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(None, examples=["https://billing.example.com/hooks"])
    headers: dict[str, str] | None = Field(None, description="all that there are from then on")
    policy: EndpointLimits = Field(default_factory=EndpointLimits)


class RotateSecretRequest(BaseModel):
    """What the new secret is."""

    model_config = ConfigDict(extra="forbid")

    asymmetric: bool = False


@router.get("", operation_id="list_endpoints", response_model=EndpointsAnswer)
async def list_all(gateway: Here, caller: Reader, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100) -> Response:
    """List endpoints, by name; their secrets and headers are not shown."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_endpoints(session, tenant_id=caller.tenant_id, limit=limit)
    return await listing(EndpointsAnswer, "endpoints", map(EndpointAnswer.of, found))


@router.post(
    "", operation_id="add_endpoint", status_code=201, openapi_extra=body_of(AddEndpointRequest, example=BILLING)
)
async def add(request: Request, gateway: Here, caller: Manager) -> SecretAnswer:
    """Add an endpoint; `secret`, with which its receiver verifies webhooks, is not shown again."""
    asked = await read_model(request, AddEndpointRequest)
    if asked.secret is not None and asked.asymmetric:
        raise Problem(CONFLICT, "secret brings its own kind: leave asymmetric out")
    wanted = use_cases.new_endpoint(
        EndpointName(caller.tenant_id, asked.name),
        asked.url,
        headers=asked.headers,
        secret=use_cases.drawn_secret(asymmetric=asked.asymmetric) if asked.secret is None else asked.secret,
        policy=asked.policy.model_dump(exclude_unset=True),
        rules=gateway.settings.endpoint_rules,
    )
    most = (await gateway.quotas.limits_of(caller.tenant_id)).endpoints_max
    async with acting(request, caller.tenants) as session:
        try:
            return SecretAnswer.of(await use_cases.add(session, wanted, most=most))
        except EndpointsFull:
            raise too_many_endpoints(caller.tenant_id, most or 0) from None


@router.get("/{name}", operation_id="get_endpoint")
async def get(name: Name, gateway: Here, caller: Reader) -> EndpointAnswer:
    """Show an endpoint."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_endpoints(session, tenant_id=caller.tenant_id, name=name, limit=1)
    if not found:
        raise UnknownEndpoint(f"tenant {shortened(caller.tenant_id)} has no endpoint {shortened(name)}")
    return EndpointAnswer.of(found[0])


@router.patch(
    "/{name}",
    operation_id="change_endpoint",
    openapi_extra=body_of(ChangeEndpointRequest, example={"policy": {"concurrency": 20}}),
)
async def change(name: Name, request: Request, gateway: Here, caller: Manager) -> SaidAnswer:
    """Change an endpoint; what is on its way is sent as it is from then on, too."""
    asked = await read_model(request, ChangeEndpointRequest)
    wanted = EndpointChange(asked.url, asked.headers, asked.policy.model_dump(exclude_unset=True))
    async with acting(request, caller.tenants) as session:
        done = await use_cases.change(session, _key(name, caller), wanted, rules=gateway.settings.endpoint_rules)
        return SaidAnswer.of(done)


@router.delete("/{name}", operation_id="remove_endpoint")
async def remove(request: Request, name: Name, caller: Manager, force: Force = False) -> SaidAnswer:
    """Remove an endpoint: deliveries on their way to it become dead letters."""
    async with acting(request, caller.tenants) as session:
        return _unless_named(await use_cases.remove(session, _key(name, caller), though_named=force))


@router.post(
    "/{name}/disable",
    operation_id="disable_endpoint",
    openapi_extra=body_of(ReasonRequest, is_needed=False, example=MAINTENANCE),
)
async def disable(name: Name, request: Request, caller: Manager, force: Force = False) -> SaidAnswer:
    """Send nothing more to an endpoint: its deliveries become dead letters, and no new timer may name it."""
    asked = await read_model(request, ReasonRequest)
    async with acting(request, caller.tenants) as session:
        done = await use_cases.disable(session, _key(name, caller), why=asked.reason or BY_HAND, though_named=force)
        return _unless_named(done)


@router.post("/{name}/enable", operation_id="enable_endpoint")
async def enable(request: Request, name: Name, caller: Manager) -> SaidAnswer:
    """Send to an endpoint again that was disabled, or answered 410."""
    async with acting(request, caller.tenants) as session:
        return SaidAnswer.of(await use_cases.enable(session, _key(name, caller)))


@router.post(
    "/{name}/rotate",
    operation_id="rotate_endpoint",
    openapi_extra=body_of(RotateSecretRequest, is_needed=False, example={"asymmetric": False}),
)
async def rotate(name: Name, request: Request, caller: Manager) -> SecretAnswer:
    """Add a secret, which is shown once; until the rotation ends, webhooks are signed with the old ones, too."""
    asked = await read_model(request, RotateSecretRequest)
    async with acting(request, caller.tenants) as session:
        return SecretAnswer.of(await use_cases.rotate(session, _key(name, caller), asymmetric=asked.asymmetric))


@router.post("/{name}/end-rotation", operation_id="end_rotation")
async def end_rotation(request: Request, name: Name, caller: Manager) -> SaidAnswer:
    """Drop all secrets of an endpoint but the newest."""
    async with acting(request, caller.tenants) as session:
        return SaidAnswer.of(await use_cases.end_rotation(session, _key(name, caller)))


@router.post("/{name}/test", operation_id="test_endpoint")
async def test(name: Name, gateway: Here, caller: Manager) -> TriedAnswer:
    """Send one webhook from the gateway now, and show what the endpoint answers."""
    key, rules = _key(name, caller), gateway.settings.endpoint_rules
    async with gateway.pool.session(caller.tenants) as session:
        endpoint = await use_cases.find_open(session, key, rules=rules)
    # Without a session: others need them while this one waits.
    tried = await use_cases.try_out(endpoint, key, rules=rules)
    return TriedAnswer(delivered=tried.delivered, said=tried.answer, duration_s=tried.duration_s)


def _key(name: str, caller: Caller) -> EndpointName:
    return EndpointName(caller.tenant_id, name)


def _unless_named(done: Done | StillNamed) -> SaidAnswer:
    if isinstance(done, StillNamed):
        raise Problem(CONFLICT, f"{done.sentence}; force=true does it all the same", pending_timers=done.timers)
    return SaidAnswer.of(done)
