"""Instances of processes: list and show them, wait for their end, and change what runs."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from shardclock_server.bpmn.model import Definition
from shardclock_server.gateway.access import Manager, Reader, Writer
from shardclock_server.gateway.answers.processes import (
    CanceledAnswer,
    InstanceAnswer,
    InstanceKeyAnswer,
    InstancesAnswer,
    StepAnswer,
    StepsAnswer,
    WholeInstanceAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Gateway, Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import (
    BUSINESS_KEY_CHARS_MAX,
    PROCESSES_LISTED_MAX,
    DryRun,
    VariablesRequest,
)
from shardclock_server.gateway.requests.bodies import JSON
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.problems import CONFLICT, NOT_FOUND, Problem
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.gateway.routes.doing import do_once
from shardclock_server.gateway.waits.later import Later
from shardclock_server.service import processes as use_cases
from shardclock_server.service import token_moves
from shardclock_server.service.cancellation import AT_ONCE_MAX, cancel_many
from shardclock_server.sql.processes import instances as statements
from shardclock_server.sql.processes.instances import StateFilter, WholeInstance
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX

router = APIRouter(prefix="/v1/instances", tags=["processes"])

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

Limit = Annotated[int, Query(ge=1, le=PROCESSES_LISTED_MAX)]


class InstancesQuery(BaseModel):
    """Which instances are listed."""

    model_config = ConfigDict(extra="forbid")

    process_id: str | None = Field(None, description="only of this process")
    business_key: str | None = Field(
        None, min_length=1, max_length=BUSINESS_KEY_CHARS_MAX, description="only those whose start gave it"
    )
    state: Annotated[StateFilter, BeforeValidator(str.upper)] | None = Field(
        None,
        description="only those, in upper or lower case; STARTING: that no engine has begun; ENDED: in any way; "
        "INCIDENT: with one",
    )
    limit: int = Field(100, ge=1, le=PROCESSES_LISTED_MAX)
    before: int | None = Field(None, ge=1, le=BIGINT_MAX, description="the last answer's `next`")


class CancelInstancesRequest(BaseModel):
    """Which instances are cancelled."""

    model_config = ConfigDict(extra="forbid")

    business_key: str = Field(
        min_length=1, max_length=BUSINESS_KEY_CHARS_MAX, description="as their start gave it", examples=["order-42"]
    )
    process_id: str | None = Field(None, description="only of this process", examples=["order"])
    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX, description="at most so many, the newest of them")


class SetVariablesRequest(VariablesRequest):
    """Which variables are set."""

    token: int = Field(1, ge=1, le=BIGINT_MAX, description="whose; 1: those of the process")


class ResolveIncidentRequest(BaseModel):
    """Which incident is resolved."""

    model_config = ConfigDict(extra="forbid")

    token: int = Field(ge=1, le=BIGINT_MAX, description="the token that has stopped", examples=[3])


class MoveTokensRequest(BaseModel):
    """Which tokens end, and at which nodes others begin."""

    model_config = ConfigDict(extra="forbid")

    terminated: list[Annotated[int, Field(ge=1, le=BIGINT_MAX)]] = Field(default_factory=list, examples=[[3]])
    begun: list[str] = Field(default_factory=list, examples=[["charge"]])


@router.get("", response_model=InstancesAnswer)
async def list_instances(gateway: Here, caller: Reader, wanted: Annotated[InstancesQuery, Query()]) -> Response:
    """List instances, the newest first."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await statements.find_instances(
            session,
            tenant_id=caller.tenant_id,
            process_id=wanted.process_id,
            business_key=wanted.business_key,
            state=wanted.state,
            before=wanted.before,
            page_size=wanted.limit,
        )
    following = found[-1].instance_key if len(found) == wanted.limit else None
    return await listing(InstancesAnswer, "instances", map(InstanceAnswer.of, found), next=following)


@router.get("/{instance_key:key}", response_model=WholeInstanceAnswer)
async def get_instance(instance_key: Key, gateway: Here, caller: Reader, wait: WaitForEnd = None) -> Response:
    """Show an instance, with what it waits for; with `wait`, when it has ended or the time is over."""

    async def show() -> ShownInstance:
        return ShownInstance(instance_key)

    return await answer_at_end(gateway, caller, show, wait_s=wait_s_of(wait))


@router.get("/{instance_key:key}/steps", response_model=StepsAnswer)
async def list_steps(
    instance_key: Key,
    gateway: Here,
    caller: Reader,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=BIGINT_MAX, description="the last answer's `next`")] = 0,
) -> Response:
    """Tell what happened in an instance, in order."""
    async with gateway.pool.session(caller.tenants) as session:
        await use_cases.find(session, instance_key, tenant_id=caller.tenant_id)
        found = await statements.steps_of(session, instance_key, after=after, page_size=limit)
    following = found[-1].version if len(found) == limit else None
    return await listing(StepsAnswer, "steps", map(StepAnswer.of, found), next=following)


@router.post("/{instance_key:key}/cancel", status_code=202, response_model=InstanceKeyAnswer)
async def cancel_instance(instance_key: Key, request: Request, caller: Writer) -> Response:
    """Cancel an instance, with all that it waits for. One that was cancelled already is so."""

    async def do(session: Session) -> InstanceKeyAnswer:
        outcome = await statements.cancel_instance(session, instance_key, tenant_id=caller.tenant_id)
        if outcome not in ("SENT", "CANCELED"):
            kind = NOT_FOUND if outcome == "NOT_FOUND" else CONFLICT
            raise Problem(kind, use_cases.why_not_canceled(instance_key, outcome), state=outcome)
        return InstanceKeyAnswer(instance_key=instance_key)

    return await do_once(request, caller, {}, do, status=202)


@router.post(
    "/cancel",
    response_model=CanceledAnswer,
    openapi_extra=body_of(CancelInstancesRequest, example={"business_key": "order-42"}),
)
async def cancel_instances(request: Request, caller: Writer, dry_run: DryRun = False) -> Response:
    """Cancel the instances of a business key that have not ended, with all that they wait for."""
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

    return await do_once(request, caller, asked, do, dry_run=dry_run)


@router.post(
    "/{instance_key:key}/variables",
    status_code=202,
    response_model=InstanceKeyAnswer,
    openapi_extra=body_of(SetVariablesRequest, example={"variables": {"paid": True}}),
)
async def set_variables(instance_key: Key, request: Request, caller: Writer) -> Response:
    """Set variables of an instance; others stay."""
    asked = await read_model(request, SetVariablesRequest)

    async def do(session: Session) -> InstanceKeyAnswer:
        sent = await token_moves.set_variables(
            session, instance_key, asked.variables, token=asked.token, tenant_id=caller.tenant_id
        )
        return await _sent(session, caller, instance_key, sent, "its variables can't be set")

    return await do_once(request, caller, asked, do, status=202)


@router.post(
    "/{instance_key:key}/resolve",
    status_code=202,
    response_model=InstanceKeyAnswer,
    openapi_extra=body_of(ResolveIncidentRequest, example={"token": 3}),
)
async def resolve_incident(instance_key: Key, request: Request, caller: Manager) -> Response:
    """Resolve an incident: the token goes on where it stopped."""
    asked = await read_model(request, ResolveIncidentRequest)

    async def do(session: Session) -> InstanceKeyAnswer:
        sent = await statements.resolve_incident(session, instance_key, asked.token, tenant_id=caller.tenant_id)
        none = f"instance {instance_key} has no incident at token {asked.token}"
        return await _sent(session, caller, instance_key, sent, "it has no incident", runs=none)

    return await do_once(request, caller, asked, do, status=202)


@router.post(
    "/{instance_key:key}/move",
    status_code=202,
    response_model=InstanceKeyAnswer,
    openapi_extra=body_of(MoveTokensRequest, example={"terminated": [3], "begun": ["charge"]}),
)
async def move_tokens(instance_key: Key, request: Request, gateway: Here, caller: Manager) -> Response:
    """Let tokens of an instance end, and others begin; all of it happens, or nothing.

    A token or a node that the instance does not have now is refused.
    """
    asked = await read_model(request, MoveTokensRequest)
    definition = await _definition_of(gateway, instance_key, caller) if asked.begun else None

    async def do(session: Session) -> InstanceKeyAnswer:
        sent = await token_moves.move(
            session,
            instance_key,
            terminated=asked.terminated,
            begun=asked.begun,
            definition=definition,
            tenant_id=caller.tenant_id,
        )
        return await _sent(session, caller, instance_key, sent, "no token of it can be moved")

    return await do_once(request, caller, asked, do, status=202)


class ShownInstance(NamedTuple):
    """Which instance is shown, and how."""

    instance_key: int
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = NO_HEADERS


async def answer_at_end(
    gateway: Gateway, caller: Caller, do: Callable[[], Awaitable[ShownInstance]], *, wait_s: float | None
) -> Response:
    """Do something, and show its instance: at once, or when it has ended or the time is over.

    A caller that may not wait has done nothing: the place is taken before.
    """
    if not wait_s:
        return await _show(gateway, caller, await do())
    with await gateway.take_place(caller.tenant_id, gateway.wait_places) as place:
        shown = await do()
        found = await _find(gateway, shown.instance_key, caller)
        if not found.found.ended_at:
            return Later(partial(_show_at_end, gateway, caller, shown, wait_s), place.kept())
    place.leave()
    return _answer_of(found, shown)


async def _show_at_end(
    gateway: Gateway, caller: Caller, shown: ShownInstance, wait_s: float, receive: Receive
) -> Response:
    await gateway.instance_ends.wait(shown.instance_key, receive, within_s=wait_s)
    return await _show(gateway, caller, shown)


async def _show(gateway: Gateway, caller: Caller, shown: ShownInstance) -> Response:
    return _answer_of(await _find(gateway, shown.instance_key, caller), shown)


def _answer_of(found: WholeInstance, shown: ShownInstance) -> Response:
    body = WholeInstanceAnswer.of(found).model_dump_json()
    return Response(body, shown.status, shown.headers, JSON)


async def _definition_of(gateway: Gateway, instance_key: int, caller: Caller) -> Definition | None:
    """Read an instance's process while no session is lent: that may take seconds."""
    async with gateway.pool.session(caller.tenants) as session:
        stored = await token_moves.model_of(session, instance_key, tenant_id=caller.tenant_id)
    if stored is None:
        return None
    return await gateway.models.run(caller.tenant_id, token_moves.definition_in, stored)


async def _find(gateway: Gateway, instance_key: int, caller: Caller) -> WholeInstance:
    async with gateway.pool.session(caller.tenants) as session:
        return await use_cases.find(session, instance_key, tenant_id=caller.tenant_id)


async def _sent(
    session: Session, caller: Caller, instance_key: int, sent: bool, in_vain: str, *, runs: str = ""
) -> InstanceKeyAnswer:
    """Answer that an instance was told.

    errors:  Problem  it was not: there is none, or what it `runs` without is not there; or its state does not allow it
    """
    if sent:
        return InstanceKeyAnswer(instance_key=instance_key)
    why = await use_cases.why_not_told(session, instance_key, in_vain, runs=runs, tenant_id=caller.tenant_id)
    is_missing = why.state == "NOT_FOUND" or why.sentence == runs
    raise Problem(NOT_FOUND if is_missing else CONFLICT, why.sentence, state=why.state)
