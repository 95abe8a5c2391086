"""The audit, as an operator sees it: who did what, and when."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from shardclock_server.gateway.access import Admin
from shardclock_server.gateway.answers.audit import ActAnswer, AuditAnswer
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.service.audit import LISTED_MAX
from shardclock_server.service.filters import moment_of
from shardclock_server.sql.audit.acts import list_acts
from shardclock_server.sql.served import ALL_TENANTS

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("", response_model=AuditAnswer)
async def list_audit(
    gateway: Here,
    _: Admin,
    since: Annotated[str | None, Query(description="from this moment on; if not given, from the first one")] = None,
    limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100,
) -> Response:
    """List what operators did, the newest first."""
    begin = None if since is None else moment_of("since", since)
    async with gateway.pool.session(ALL_TENANTS) as session:
        acts = await list_acts(session, since=begin, limit=limit)
    return await listing(AuditAnswer, "acts", map(ActAnswer.of, acts))
