"""Instances of processes: list and show instances, wait for an end, and change running instances."""

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

from shardclock.api.refusals.processes import UNKNOWN_INCIDENT
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
from shardclock_server.gateway.gateway import CurrentGateway, Gateway, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.bodies import JSON
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.shared_fields import (
    BUSINESS_KEY_CHARS_MAX,
    PROCESSES_LISTED_MAX,
    DryRun,
    VariablesRequest,
)
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.gateway.waits.deferred import DeferredResponse
from shardclock_server.service import processes as use_cases
from shardclock_server.service import token_moves
from shardclock_server.service.instance_cancellation import AT_ONCE_MAX, cancel_many
from shardclock_server.service.instance_list import list_instances
from shardclock_server.sql.processes import instances as statements
from shardclock_server.sql.processes.instances import StateFilter, WholeInstance
from shardclock_server.sql.processes.waits import FoundInstances, InstanceFilter
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX, NAME_CHARS_MAX
from shardclock_server.timers.refusal import Refusal

router = APIRouter(prefix="/v1/instances", tags=["processes"])

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

Limit = Annotated[int, Query(ge=1, le=PROCESSES_LISTED_MAX)]


class InstancesQuery(BaseModel):
    """A filter of instances, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    process_id: str | None = Field(None, description="only instances of this process")
    business_key: str | None = Field(
        None, min_length=1, max_length=BUSINESS_KEY_CHARS_MAX, description="only instances with this business key"
    )
    state: Annotated[StateFilter, BeforeValidator(str.upper)] | None = Field(
        None,
        description="only instances in this state, in upper or lower case; STARTING: no engine has begun the instance;"
        " ENDED: any outcome; "
        "INCIDENT: it has an incident",
    )
    definition_key: int | None = Field(
        None,
        ge=1,
        le=BIGINT_MAX,
        description="only running instances of this version that wait, the oldest first; `since` is the begin of the"
        " longest wait. The request reads at most 2,000 instances, so a page may be short or empty although `next`"
        " leads to more",
    )
    node_id: str | None = Field(
        None,
        min_length=1,
        max_length=NAME_CHARS_MAX,
        description="with `definition_key`: only instances that wait at this element",
    )
    limit: int = Field(100, ge=1, le=PROCESSES_LISTED_MAX)
    after: int | None = Field(None, ge=1, le=BIGINT_MAX, description="the `next` of the previous page")

    def filter_of(self, caller: Caller) -> InstanceFilter:
        """Return the filter of the caller's instances."""
        return InstanceFilter(
            caller.tenant_id, self.process_id, self.business_key, self.state, self.definition_key, self.node_id
        )


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


@router.get("", response_model=InstancesAnswer)
async def list_all(gateway: CurrentGateway, caller: Reader, wanted: Annotated[InstancesQuery, Query()]) -> Response:
    """List instances, the newest first; with `definition_key`, the oldest first."""
    page = await find_page(gateway, caller, wanted)
    return await listing(InstancesAnswer, "instances", map(InstanceAnswer.of, page.instances), next=page.next)


async def find_page(gateway: Gateway, caller: Caller, wanted: InstancesQuery) -> FoundInstances:
    """Find one page of instances.

    errors:  Refusal           the filter is refused
             StoreUnavailable  Postgres did not answer within the timeout
    """
    async with gateway.pool.session(caller.tenants) as session:
        return await list_instances(session, wanted.filter_of(caller), size=wanted.limit, after=wanted.after)


@router.get("/{instance_key:key}", response_model=WholeInstanceAnswer)
async def get_instance(instance_key: Key, gateway: CurrentGateway, caller: Reader, wait: WaitForEnd = None) -> Response:
    """Show an instance and its waits; with `wait`, answer when the instance has ended, or when the time is over."""

    async def show() -> ShownInstance:
        return ShownInstance(instance_key)

    return await answer_at_end(gateway, caller, show, wait_s=wait_s_of(wait))


@router.get("/{instance_key:key}/steps", response_model=StepsAnswer)
async def list_steps(
    instance_key: Key,
    gateway: CurrentGateway,
    caller: Reader,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=BIGINT_MAX, description="the `next` of the previous page")] = 0,
) -> Response:
    """List the steps of an instance, in order."""
    async with gateway.pool.session(caller.tenants) as session:
        await use_cases.find(session, instance_key, tenant_id=caller.tenant_id)
        found = await statements.steps_of(session, instance_key, after=after, page_size=limit)
    following = found[-1].version if len(found) == limit else None
    return await listing(StepsAnswer, "steps", map(StepAnswer.of, found), next=following)


@router.post("/{instance_key:key}/cancel", status_code=202, response_model=InstanceKeyAnswer)
async def cancel_instance(instance_key: Key, request: Request, caller: Writer) -> Response:
    """Cancel an instance and all its waits. The request also succeeds if the instance is cancelled already."""

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


class ShownInstance(NamedTuple):
    """The instance to show, with the response's status and headers."""

    instance_key: int
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = NO_HEADERS


async def answer_at_end(
    gateway: Gateway, caller: Caller, do: Callable[[], Awaitable[ShownInstance]], *, wait_s: float | None
) -> Response:
    """Call `do`, and show the instance: without `wait` immediately, otherwise after its end or when the time is over.

    The slot for the wait is taken before `do` is called, so that a request that gets no slot changes nothing.
    """
    if not wait_s:
        return await _show(gateway, caller, await do())
    with await gateway.acquire_wait_slot(caller.tenant_id, gateway.wait_limits.ends) as slot:
        shown = await do()
        found = await _find(gateway, shown.instance_key, caller)
        if not found.found.ended_at:
            return DeferredResponse(partial(_show_at_end, gateway, caller, shown, wait_s), slot.kept())
    slot.release()
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
    """Parse an instance's process without holding a session: a large model may take seconds."""
    async with gateway.pool.session(caller.tenants) as session:
        stored = await token_moves.model_of(session, instance_key, tenant_id=caller.tenant_id)
    if stored is None:
        return None
    return await gateway.models.run(caller.tenant_id, token_moves.definition_in, stored)


async def _find(gateway: Gateway, instance_key: int, caller: Caller) -> WholeInstance:
    async with gateway.pool.session(caller.tenants) as session:
        return await use_cases.find(session, instance_key, tenant_id=caller.tenant_id)


async def _sent(
    session: Session, caller: Caller, instance_key: int, sent: bool, why: str, *, running: Refusal | None = None
) -> InstanceKeyAnswer:
    """Answer that a signal was sent to an instance.

    errors:  Refusal  no signal was sent: the instance or incident is unknown, or the state does not allow the change;
                      `running` is the refusal for a running instance
    """
    if sent:
        return InstanceKeyAnswer(instance_key=instance_key)
    raise await use_cases.not_sent(session, instance_key, why, running=running, tenant_id=caller.tenant_id)
