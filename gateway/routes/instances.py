"""Instances of processes: list and show instances, and wait for the end of an instance."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response
from starlette.types import Receive

from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.processes import (
    InstanceAnswer,
    InstancesAnswer,
    StepAnswer,
    StepsAnswer,
    WholeInstanceAnswer,
)
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.bodies import JSON
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.shared_fields import (
    BUSINESS_KEY_CHARS_MAX,
    PROCESSES_LISTED_MAX,
)
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.gateway.waits.deferred import DeferredResponse
from shardclock_server.service import processes as use_cases
from shardclock_server.service.instance_list import list_instances
from shardclock_server.sql.processes import instances as statements
from shardclock_server.sql.processes.instances import StateFilter, WholeInstance
from shardclock_server.sql.processes.waits import FoundInstances, InstanceFilter
from shardclock_server.timers.model import BIGINT_MAX, NAME_CHARS_MAX

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


async def _find(gateway: Gateway, instance_key: int, caller: Caller) -> WholeInstance:
    async with gateway.pool.session(caller.tenants) as session:
        return await use_cases.find(session, instance_key, tenant_id=caller.tenant_id)
