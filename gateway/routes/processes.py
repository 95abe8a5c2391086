"""Processes: deploy models, list deployed versions, and start instances."""

from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.refusals.processes import UNKNOWN_DEFINITION
from shardclock_server.bpmn.model.document import MODEL_BYTES_MAX
from shardclock_server.gateway.access import Manager, Reader, Writer
from shardclock_server.gateway.answers.processes import (
    DefinitionKeyAnswer,
    DeployedAnswer,
    DeploymentAnswer,
    InstanceKeyAnswer,
    ProcessAnswer,
    ProcessesAnswer,
    WholeInstanceAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.bodies import read_body
from shardclock_server.gateway.requests.idempotency import REPLAYED
from shardclock_server.gateway.requests.paths import Key, Name
from shardclock_server.gateway.requests.shared_fields import BUSINESS_KEY_CHARS_MAX, ORDER, VariablesRequest
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.gateway.routes.instances import ShownInstance, answer_at_end
from shardclock_server.service import deployment
from shardclock_server.service import processes as use_cases
from shardclock_server.sql.processes import definitions
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import INTEGER_MAX
from shardclock_server.timers.refusal import Refusal

XML = "application/xml"
A_MODEL = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"><process id="hello"'
    ' isExecutable="true"><startEvent id="start"/></process></definitions>'
)
MODEL_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {XML: {"schema": {"type": "string"}, "example": A_MODEL}}}
}

MODEL_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {XML: {"schema": {"type": "string"}, "example": A_MODEL}}}
}
# Without this header a browser would show a model as a page of the gateway, and run scripts in the model.
AS_FILE = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}

router = APIRouter(prefix="/v1/processes", tags=["processes"])


class StartRequest(VariablesRequest):
    """The parameters of a new instance."""

    version: int | None = Field(None, ge=1, le=INTEGER_MAX, description="the version of the process; null: the newest")
    idempotency_key: str | None = Field(
        None, min_length=1, max_length=255, description="a second start with this key within a day starts nothing"
    )
    business_key: str | None = Field(
        None,
        min_length=1,
        max_length=BUSINESS_KEY_CHARS_MAX,
        description="the caller's own name for the instance, for searches; several instances may have the same name",
        examples=["order-42"],
    )


@router.post("", status_code=201, response_model=DeploymentAnswer, openapi_extra=MODEL_BODY)
async def deploy_model(
    request: Request,
    gateway: CurrentGateway,
    caller: Manager,
    resource: Annotated[str, Query(max_length=200, description="the name of the file")] = "model.bpmn",
) -> Response:
    """Deploy the processes of a BPMN model. Each process gets a new version, unless the file is unchanged."""
    model = await read_body(request, XML, bytes_max=MODEL_BYTES_MAX, within_s=gateway.settings.gateway_body_s)

    # The gateway parses the model before it takes a session, because a large model may take seconds.
    processes = await gateway.models.run(caller.tenant_id, deployment.describe_processes, model)

    async def do(session: Session) -> DeploymentAnswer:
        deployed = await use_cases.deploy_described(
            session, model, processes, resource=resource, tenant_id=caller.tenant_id
        )
        return DeploymentAnswer(processes=[DeployedAnswer.of(it) for it in deployed])

    asked = {"resource": resource, "digest": sha256(model).hexdigest()}
    return await run_idempotent(request, caller, asked, do, status=201)


@router.get("")
async def list_processes(
    gateway: CurrentGateway,
    caller: Reader,
    all_versions: Annotated[bool, Query(description="list older versions, too")] = False,
) -> ProcessesAnswer:
    """List deployed processes."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await definitions.list_definitions(session, tenant_id=caller.tenant_id, all_versions=all_versions)
    return ProcessesAnswer(processes=[ProcessAnswer.of(it) for it in found])


@router.get("/{definition_key:key}/model", response_class=Response, responses=MODEL_ANSWER)
async def get_model(definition_key: Key, gateway: CurrentGateway, caller: Reader) -> Response:
    """Fetch the deployed model of a definition; a deleted definition has its model until its data are removed."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await use_cases.find_definition(session, definition_key, tenant_id=caller.tenant_id)
    return Response(found.model, media_type=XML, headers=AS_FILE)


@router.delete("/{definition_key:key}", response_model=DefinitionKeyAnswer)
async def delete_definition(definition_key: Key, request: Request, caller: Manager) -> Response:
    """Delete one version of a process; its instances continue.

    If the newest version is deleted, the previous version becomes the newest.
    """

    async def do(session: Session) -> DefinitionKeyAnswer:
        if not await definitions.delete_definition(session, definition_key, tenant_id=caller.tenant_id):
            raise Refusal.of(UNKNOWN_DEFINITION, definition_key=definition_key)
        return DefinitionKeyAnswer(definition_key=definition_key)

    return await run_idempotent(request, caller, {}, do)


@router.post(
    "/{name}/start",
    status_code=201,
    response_model=WholeInstanceAnswer,
    openapi_extra=body_of(StartRequest, is_needed=False, example={"variables": ORDER}),
)
async def start_process(name: Name, request: Request, caller: Writer, wait: WaitForEnd = None) -> Response:
    """Start an instance of a process; with `wait`, answer when the instance has ended, or when the time is over.

    A repeated request with the same idempotency key starts no instance, and shows the present state of the first
    instance.
    """
    asked = await read_model(request, StartRequest)

    async def do(session: Session) -> InstanceKeyAnswer:
        key = await use_cases.start(
            session,
            name,
            variables=asked.variables,
            tenant_id=caller.tenant_id,
            version=asked.version,
            idempotency_key=asked.idempotency_key,
            business_key=asked.business_key,
        )
        return InstanceKeyAnswer(instance_key=key)

    async def start() -> ShownInstance:
        done = await run_idempotent(request, caller, asked, do)
        key = InstanceKeyAnswer.model_validate_json(bytes(done.body)).instance_key
        headers = {REPLAYED: done.headers[REPLAYED]} if REPLAYED in done.headers else {}
        return ShownInstance(key, HTTPStatus.CREATED, headers)

    return await answer_at_end(gateway_of(request), caller, start, wait_s=wait_s_of(wait))
