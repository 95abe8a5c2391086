"""Messages and signals for waiting tokens and for start events."""

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Writer
from shardclock_server.gateway.answers.processes import InstanceKeysAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.shared_fields import VariablesRequest, seconds_of
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.sql.processes import instances as statements
from shardclock_server.sql.session import Session

router = APIRouter(prefix="/v1", tags=["processes"])


class PublishRequest(VariablesRequest):
    """A message to publish."""

    name: str = Field(examples=["paid"])
    correlation: str = Field(
        "", description="the correlation key: the value of the expression of each token that receives the message"
    )
    keep: str = Field(
        "PT0S", description="the time for which the message is stored for later tokens, an ISO 8601 duration"
    )


class BroadcastRequest(VariablesRequest):
    """A signal to broadcast."""

    name: str = Field(examples=["stop-all"])


@router.post(
    "/messages",
    response_model=InstanceKeysAnswer,
    openapi_extra=body_of(PublishRequest, example={"name": "paid", "correlation": "42", "keep": "PT1H"}),
)
async def publish_message(request: Request, caller: Writer) -> Response:
    """Publish a message; the response lists the instances that receive the message now."""
    asked = await read_model(request, PublishRequest)
    keep_s = seconds_of("keep", asked.keep)

    async def do(session: Session) -> InstanceKeysAnswer:
        reached = await statements.publish_message(
            session,
            asked.name,
            correlation=asked.correlation,
            variables=asked.variables,
            tenant_id=caller.tenant_id,
            time_to_live_s=keep_s,
        )
        return InstanceKeysAnswer(instance_keys=reached)

    return await run_idempotent(request, caller, asked, do)


@router.post(
    "/signals", response_model=InstanceKeysAnswer, openapi_extra=body_of(BroadcastRequest, example={"name": "stop-all"})
)
async def throw_signal(request: Request, caller: Writer) -> Response:
    """Broadcast a signal; the response lists the instances that receive the signal."""
    asked = await read_model(request, BroadcastRequest)

    async def do(session: Session) -> InstanceKeysAnswer:
        reached = await statements.throw_signal(
            session, asked.name, variables=asked.variables, tenant_id=caller.tenant_id
        )
        return InstanceKeysAnswer(instance_keys=reached)

    return await run_idempotent(request, caller, asked, do)
