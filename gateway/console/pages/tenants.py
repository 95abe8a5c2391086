"""Pages of tenants and API keys, for operators: limits and usage, and the list of keys."""

import time
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.refusals.tenants import UNKNOWN_TENANT
from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.answers.tenants import ShownTenantAnswer
from shardclock_server.gateway.console.access import Admin
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.recording import note_body
from shardclock_server.gateway.routes.tenants import LimitsRequest
from shardclock_server.service import tenants as use_cases
from shardclock_server.sql.keys.keys import list_keys
from shardclock_server.sql.served import ALL_TENANTS, NO_TENANTS
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import DEFAULTS, Tenant, list_tenants
from shardclock_server.timers.model import NAME_CHARS_MAX
from shardclock_server.timers.refusal import Refusal

ROWS = 50
MEASURED_S = 0.1  # the list shows no usage for the tenants that are not measured within this time
KEYS_SHOWN = 200

router = page_router()


class LimitsForm(LimitsRequest):
    """All limits of a tenant after the change; an empty field means no limit, or the default."""

    model_config = ConfigDict(strict=False)


class TenantFilter(BaseModel):
    """The tenant to show."""

    model_config = ConfigDict(extra="forbid")

    tenant: str | None = None


@router.get("/tenants")
async def show_tenants(request: Request, gateway: CurrentGateway, caller: Admin) -> Response:
    """List the tenants with their own limits, by name."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        found = await list_tenants(session, limit=ROWS)
        until_s = time.monotonic() + MEASURED_S
        tenants = [(it, await _limited(gateway, session, it) if time.monotonic() < until_s else None) for it in found]
    return page(request, caller, "tenants.html", title="Tenants", tenants=tenants, is_full=len(found) == ROWS)


async def _limited(gateway: Gateway, session: Session, tenant: Tenant) -> list[tuple[str, int | None, float]]:
    """List a tenant's resources with their limits and, if known, their usage; the fullest resource comes first.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    shown = await use_cases.show(session, tenant.tenant_id)
    waiters = gateway.quotas.count_waiting(tenant.tenant_id)
    used = ShownTenantAnswer.of(shown, usual=gateway.settings.usual_limits, waiters=waiters).used.model_dump()
    limits = [(name.removesuffix("_max"), limit) for name, limit in asdict(tenant.limits).items() if limit is not None]
    found = [(resource, used.get(resource), limit) for resource, limit in limits]
    return sorted(found, key=lambda it: (it[1] or 0) / (it[2] or 1), reverse=True)


@router.get("/tenant-usage")
async def show_tenant(request: Request, gateway: CurrentGateway, caller: Admin) -> Response:
    """Show a tenant's limits and usage.

    For an unknown tenant, the page has the status 404, and can still set limits.
    """
    asked = filter_of(request, TenantFilter)
    tenant_id = asked.model.tenant or caller.tenant_id
    async with gateway.pool.session(ALL_TENANTS) as session:
        shown = await use_cases.measure(session, tenant_id)
    if asked.error is None and not shown.exists:
        asked = asked.refused(Refusal.of(UNKNOWN_TENANT, tenant_id=tenant_id))
    waiters = gateway.quotas.count_waiting(tenant_id)
    answer = ShownTenantAnswer.of(shown, usual=gateway.settings.usual_limits, waiters=waiters)
    return page(
        request,
        caller,
        "tenant.html",
        status=asked.status,
        error=asked.error,
        title=f"Tenant {tenant_id[:NAME_CHARS_MAX]}",
        shown=answer,
        limits={name: (limit, DEFAULTS.get(name)) for name, limit in answer.limits.model_dump().items()},
        used=answer.used.model_dump(),
    )


@router.post("/tenants/{tenant}/set")
async def set_limits(tenant: Name, request: Request, _: Admin) -> Response:
    """Set a tenant's own limits; each gateway enforces the new limits within about a second."""
    wanted = await form_of(request, LimitsForm)
    async with audited_transaction(request, ALL_TENANTS) as session:
        changed = await use_cases.set_own(session, tenant, wanted.model_dump())
        note_body(request, {"changes": changed.changes})
    return done(request, url_of(request, "/tenant-usage", tenant=tenant), f"the limits of tenant {tenant} are set")


@router.post("/tenants/{tenant}/remove")
async def remove_limits(tenant: Name, request: Request, _: Admin) -> Response:
    """Remove a tenant's own limits, so that the limits of the gateways' settings apply.

    The tenant's data is not deleted.
    """
    async with audited_transaction(request, ALL_TENANTS) as session:
        removed = await use_cases.remove_own(session, tenant)
        note_body(request, {"changes": removed.changes})
    to = url_of(request, "/tenant-usage", tenant=tenant)
    return done(request, to, f"tenant {tenant} has no limits of its own any more")


@router.get("/keys")
async def show_keys(request: Request, gateway: CurrentGateway, caller: Admin) -> Response:
    """List API keys, including ended keys.

    The page can't change keys, because only the owner of the schema may change keys.
    """
    asked = filter_of(request, TenantFilter)
    async with gateway.pool.session(NO_TENANTS) as session:
        keys = await list_keys(session, tenant_id=asked.model.tenant, limit=KEYS_SHOWN)
    return page(
        request,
        caller,
        "keys.html",
        status=asked.status,
        title="Keys",
        error=asked.error,
        given=asked.given,
        keys=keys,
        is_full=len(keys) == KEYS_SHOWN,
    )
