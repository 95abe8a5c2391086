"""Changes of instances of processes: cancel, set variables, resolve an incident, and move tokens."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.refusals.processes import UNKNOWN_INCIDENT
from shardclock_server.bpmn.model import Definition
from shardclock_server.gateway.access import Manager, Writer, record_operator
from shardclock_server.gateway.answers.processes import (
    CanceledAnswer,
    InstanceKeyAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Gateway, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.recording import note_body
from shardclock_server.gateway.requests.shared_fields import (
    BUSINESS_KEY_CHARS_MAX,
    DryRun,
    VariablesRequest,
)
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.service import processes as use_cases
from shardclock_server.service import token_moves
from shardclock_server.service.instance_cancellation import AT_ONCE_MAX, cancel_many
from shardclock_server.sql.processes import instances as statements
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal

router = APIRouter(prefix="/v1/instances", tags=["processes"])


class CancelInstancesRequest(BaseModel):
    """A filter of instances to cancel."""

    model_config = ConfigDict(extra="forbid")

    business_key: str = Field(
        min_length=1,
        max_length=BUSINESS_KEY_CHARS_MAX,
        description="the business key of the instances",
        examples=["order-42"],
    )
    process_id: str | None = Field(None, description="only instances of this process", examples=["order"])
    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX, description="the limit of instances; the newest come first")


class SetVariablesRequest(VariablesRequest):
    """The variables to set."""

    token: int = Field(1, ge=1, le=BIGINT_MAX, description="the token that has the variables; 1 is the process itself")


class ResolveIncidentRequest(BaseModel):
    """The incident to resolve."""

    model_config = ConfigDict(extra="forbid")

    token: int = Field(ge=1, le=BIGINT_MAX, description="the token that has stopped", examples=[3])


class MoveTokensRequest(BaseModel):
    """The tokens to terminate, and the nodes at which new tokens start."""

    model_config = ConfigDict(extra="forbid")

    terminated: list[Annotated[int, Field(ge=1, le=BIGINT_MAX)]] = Field(default_factory=list, examples=[[3]])
    begun: list[str] = Field(default_factory=list, examples=[["charge"]])


@router.post("/{instance_key:key}/cancel", status_code=202, response_model=InstanceKeyAnswer)
async def cancel_instance(instance_key: Key, request: Request, caller: Writer) -> Response:
    """Cancel an instance and all its waits. The request also succeeds if the instance is cancelled already."""
    record_operator(request, caller)

    async def do(session: Session) -> InstanceKeyAnswer:
        outcome = await statements.cancel_instance(session, instance_key, tenant_id=caller.tenant_id)
        if outcome not in ("SENT", "CANCELED"):
            raise use_cases.not_canceled(instance_key, outcome)
        return InstanceKeyAnswer(instance_key=instance_key)

    return await run_idempotent(request, caller, {}, do, status=202)


@router.post(
    "/cancel",
    response_model=CanceledAnswer,
    openapi_extra=body_of(CancelInstancesRequest, example={"business_key": "order-42"}),
)
async def cancel_instances(request: Request, caller: Writer, dry_run: DryRun = False) -> Response:
    """Cancel all unfinished instances with a business key, and all their waits."""
    record_operator(request, caller)
    asked = await read_model(request, CancelInstancesRequest)

    async def do(session: Session) -> CanceledAnswer:
        done = await cancel_many(
            session,
            asked.business_key,
            process_id=asked.process_id,
            tenant_id=caller.tenant_id,
            limit=asked.limit,
            dry_run=dry_run,
        )
        return CanceledAnswer.of(done)

    return await run_idempotent(request, caller, asked, do, dry_run=dry_run)


@router.post(
    "/{instance_key:key}/variables",
    status_code=202,
    response_model=InstanceKeyAnswer,
    openapi_extra=body_of(SetVariablesRequest, example={"variables": {"paid": True}}),
)
async def set_variables(instance_key: Key, request: Request, caller: Writer) -> Response:
    """Set some variables of an instance; other variables stay unchanged."""
    return await send_variables(request, caller, instance_key, await read_model(request, SetVariablesRequest))


async def send_variables(request: Request, caller: Caller, instance_key: int, asked: SetVariablesRequest) -> Response:
    """Set variables of an instance, once for each idempotency key."""
    record_operator(request, caller)
    note_body(request, asked.model_dump())

    async def do(session: Session) -> InstanceKeyAnswer:
        sent = await token_moves.set_variables(
            session, instance_key, asked.variables, token=asked.token, tenant_id=caller.tenant_id
        )
        return await _sent(session, caller, instance_key, sent, "its variables can't be set")

    return await run_idempotent(request, caller, asked, do, status=202)


@router.post(
    "/{instance_key:key}/resolve",
    status_code=202,
    response_model=InstanceKeyAnswer,
    openapi_extra=body_of(ResolveIncidentRequest, example={"token": 3}),
)
async def resolve_incident(instance_key: Key, request: Request, caller: Manager) -> Response:
    """Resolve an incident, so that the token continues at its node."""
    return await send_resolution(request, caller, instance_key, await read_model(request, ResolveIncidentRequest))


async def send_resolution(
    request: Request, caller: Caller, instance_key: int, asked: ResolveIncidentRequest
) -> Response:
    """Resolve an incident, once for each idempotency key."""

    async def do(session: Session) -> InstanceKeyAnswer:
        sent = await statements.resolve_incident(session, instance_key, asked.token, tenant_id=caller.tenant_id)
        none = Refusal.of(UNKNOWN_INCIDENT, instance_key=instance_key, token=asked.token)
        return await _sent(session, caller, instance_key, sent, "it has no incident", running=none)

    return await run_idempotent(request, caller, asked, do, status=202)


@router.post(
    "/{instance_key:key}/move",
    status_code=202,
    response_model=InstanceKeyAnswer,
    openapi_extra=body_of(MoveTokensRequest, example={"terminated": [3], "begun": ["charge"]}),
)
async def move_tokens(instance_key: Key, request: Request, caller: Manager) -> Response:
    """Terminate some tokens of an instance, and create tokens at other nodes, in one atomic change.

    The request is refused if the instance does not have all of these tokens and nodes.
    """
    return await send_moves(request, caller, instance_key, await read_model(request, MoveTokensRequest))


async def send_moves(request: Request, caller: Caller, instance_key: int, asked: MoveTokensRequest) -> Response:
    """Move tokens of an instance, once for each idempotency key."""
    definition = await _definition_of(gateway_of(request), instance_key, caller) if asked.begun else None

    async def do(session: Session) -> InstanceKeyAnswer:
        sent = await token_moves.move(
            session,
            instance_key,
            terminated=asked.terminated,
            begun=asked.begun,
            definition=definition,
            tenant_id=caller.tenant_id,
        )
        return await _sent(session, caller, instance_key, sent, "none of its tokens can be moved")

    return await run_idempotent(request, caller, asked, do, status=202)


async def _definition_of(gateway: Gateway, instance_key: int, caller: Caller) -> Definition | None:
    """Parse an instance's process without holding a session, because a large model may take seconds."""
    async with gateway.pool.session(caller.tenants) as session:
        stored = await token_moves.model_of(session, instance_key, tenant_id=caller.tenant_id)
    if stored is None:
        return None
    return await gateway.models.run(caller.tenant_id, token_moves.definition_in, stored)


async def _sent(
    session: Session, caller: Caller, instance_key: int, sent: bool, why: str, *, running: Refusal | None = None
) -> InstanceKeyAnswer:
    """Answer that a signal was sent to an instance.

    errors:  Refusal  no signal was sent: the instance or incident is unknown, or the state does not allow the change.
                      If the instance runs, the refusal is `running`
    """
    if sent:
        return InstanceKeyAnswer(instance_key=instance_key)
    raise await use_cases.not_sent(session, instance_key, why, running=running, tenant_id=caller.tenant_id)
