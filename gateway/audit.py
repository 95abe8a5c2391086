"""The audit, as an operator sees it: who did what, and when."""

from typing import Annotated

from fastapi import APIRouter, Query

from gateway.answers.audit import ActAnswer, AuditAnswer
from gateway.parts import Admin, Here
from service.audit import LISTED_MAX
from service.filters import moment_of
from sql.audit.acts import list_acts
from sql.session import ALL_TENANTS

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("")
async def list_audit(
    gateway: Here,
    _: Admin,
    since: Annotated[str | None, Query(description="from this moment on; if not given, from the first one")] = None,
    limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100,
) -> AuditAnswer:
    """List what operators did, the newest first."""
    begin = None if since is None else moment_of("since", since)
    async with gateway.pool.session(ALL_TENANTS) as session:
        return AuditAnswer(acts=[ActAnswer.of(act) for act in await list_acts(session, since=begin, limit=limit)])
