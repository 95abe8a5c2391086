"""Show the overview: punctuality, the timers due in the next 30 minutes, and problems that need a person."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shardclock_server.gateway.console.access import Viewer
from shardclock_server.gateway.console.addresses import HOME, url_of
from shardclock_server.gateway.console.bars import chart_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.pages.excerpts import first_line
from shardclock_server.gateway.console.past import read_past
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.service.hold import Hold, living_of, read_hold
from shardclock_server.service.job_check import JobTrouble, find_troubled_jobs
from shardclock_server.service.keys import allows
from shardclock_server.service.operator_hold import OperatorHold, read_operator_hold
from shardclock_server.service.overview import (
    Punctuality,
    judge,
    judge_tenant,
    read_attention,
    read_coming,
)
from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.metrics.status import (
    OverdueTenant,
    Status,
    TroubledTenant,
    find_overdue_tenants,
    find_troubled_tenants,
    read_clock,
    read_status,
)
from shardclock_server.sql.served import ALL_TENANTS

OVERDUE_TENANTS = 5
TROUBLED_TENANTS = 20

router = page_router()


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """The state of the whole installation, for operators."""

    status: Status
    hold: Hold | None
    held: OperatorHold | None
    serving: int
    punctuality: Punctuality
    overdue_tenants: Sequence[OverdueTenant]


@router.get("/")
async def leave_slash(request: Request, _: Viewer) -> Response:
    """Redirect to the first page; its URL has no trailing slash."""
    return RedirectResponse(url_of(request, HOME), HTTPStatus.SEE_OTHER)


@router.get("")
async def show_overview(request: Request, caller: Viewer) -> Response:
    """Show the tenant's state to all viewers, and the whole installation's state to operators."""
    is_shown = caller.is_operator and allows(caller.scopes, "operate")  # GET /v1/cluster needs the same scope
    settings = gateway_of(request).settings
    jobs, elsewhere = await _read_installation(request, caller.tenant_id) if caller.is_operator else (None, [])
    async with gateway_of(request).pool.session(caller.tenants) as session:
        coming = await read_coming(session, caller.tenant_id, is_operator=caller.is_operator)
        attention = await read_attention(session, caller.tenant_id, jobs=jobs)
        past = await read_past(session, caller.tenant_id, is_operator=caller.is_operator)
        hold = await read_hold(session, settings.identity, silent_s=settings.silent_s)
        now = await read_clock(session)
    is_held = hold is not None and hold.of_all
    overdue_s = coming.oldest_overdue_s(now)
    return page(
        request,
        caller,
        "overview.html",
        title="Overview",
        punctuality=judge_tenant(past.recent, overdue_s=overdue_s, is_held=is_held),
        cluster=await _summary(request, hold) if is_shown else None,
        is_operator=caller.is_operator,
        is_held=is_held,
        past=past,
        coming=coming,
        chart=chart_of(coming.minutes, coming.targets),
        attention=attention,
        elsewhere=elsewhere[:TROUBLED_TENANTS],
        has_more_elsewhere=len(elsewhere) > TROUBLED_TENANTS,
        long_runs=[(it, first_line(it.message)) for it in attention.jobs.long_runs],
    )


async def _read_installation(request: Request, tenant_id: str) -> tuple[JobTrouble, Sequence[TroubledTenant]]:
    """Find the jobs and the other tenants that need a person; read one tenant more than the page shows."""
    async with gateway_of(request).pool.session(ALL_TENANTS) as session:
        jobs = await find_troubled_jobs(session)
        return jobs, await find_troubled_tenants(session, tenant_id=tenant_id, limit=TROUBLED_TENANTS + 1)


async def _summary(request: Request, hold: Hold | None) -> ClusterSummary:
    gateway = gateway_of(request)
    async with gateway.pool.session(ALL_TENANTS) as session:
        status, holders = await read_status(session), await list_holders(session)
        held = await read_operator_hold(session) if hold else None
        overdue = await find_overdue_tenants(session, limit=OVERDUE_TENANTS) if status.overdue else []
    living = living_of([holder for holder in holders if holder.role == SHARD], gateway.settings.silent_s)
    serving = sum(holder.part is not None for holder in living)
    punctuality = judge(status, serving=serving, hold=hold.reason if hold else None)
    return ClusterSummary(status, hold, held, serving, punctuality, overdue)
