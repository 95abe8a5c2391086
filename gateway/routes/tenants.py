"""Tenants, for operators: show their limits and usage, and set their limits."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Admin, audited_transaction
from shardclock_server.gateway.answers.tenants import ShownTenantAnswer, TenantAnswer, TenantsAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.recording import note_body
from shardclock_server.service import tenants as use_cases
from shardclock_server.service.tenants import LISTED_MAX
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.tenant_limits.tenant_limits import list_tenants

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])


class LimitsRequest(BaseModel):
    """All limits of a tenant after the request. A missing or null limit means no limit, or the default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    timers_max: int | None = Field(None, examples=[100_000], description="pending timers")
    payload_bytes_max: int | None = Field(None, description="bytes of the payloads of pending timers, as JSON text")
    waiters_max: int | None = Field(
        None, examples=[100], description="callers that wait or follow the log, at each gateway"
    )
    endpoints_max: int | None = Field(None, examples=[20])
    rate_per_s: float | None = Field(None, examples=[50], description="writes a second, at each gateway")
    instances_max: int | None = Field(
        None, examples=[5_000], description="unfinished instances of processes; null: the default"
    )
    tasks_max: int | None = Field(None, examples=[5_000], description="open tasks of people; null: the default")
    messages_max: int | None = Field(
        None, examples=[1_000], description="messages that are stored for later tokens; null: the default"
    )
    definitions_max: int | None = Field(
        None, examples=[200], description="versions of processes, without deleted versions; null: the default"
    )
    schedules_max: int | None = Field(None, examples=[500], description="pending schedules; null: the default")


@router.get("", operation_id="list_tenants", response_model=TenantsAnswer)
async def list_all(
    gateway: CurrentGateway, _: Admin, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100
) -> Response:
    """List the tenants with their own limits, by name."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        found = await list_tenants(session, limit=limit)
    return await listing(TenantsAnswer, "tenants", map(TenantAnswer.of, found))


@router.get("/{tenant}")
async def get_tenant(tenant: Name, gateway: CurrentGateway, _: Admin) -> ShownTenantAnswer:
    """Show a tenant's limits and usage; a tenant without timers, endpoints, processes, limits and keys is not found."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        shown = await use_cases.show(session, tenant)
    usual, waiters = gateway.settings.usual_limits, gateway.quotas.count_waiting(tenant)
    return ShownTenantAnswer.of(shown, usual=usual, waiters=waiters)


@router.put("/{tenant}", openapi_extra=body_of(LimitsRequest, example={"timers_max": 100_000, "rate_per_s": 50}))
async def put_limits(tenant: Name, request: Request, _: Admin) -> TenantAnswer:
    """Set a tenant's own limits; each gateway enforces the new limits within about a second."""
    wanted = await read_model(request, LimitsRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        changed = await use_cases.set_own(session, tenant, wanted.model_dump())
        note_body(request, {"changes": changed.changes})
    return TenantAnswer.of(changed.tenant)


@router.delete("/{tenant}", status_code=204)
async def remove_limits(request: Request, tenant: Name, _: Admin) -> None:
    """Remove a tenant's own limits, so that the limits of the gateways' settings apply.

    The tenant's data is not deleted.
    """
    async with audited_transaction(request, ALL_TENANTS) as session:
        removed = await use_cases.remove_own(session, tenant)
        note_body(request, {"changes": removed.changes})
