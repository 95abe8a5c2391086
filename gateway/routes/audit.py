"""The audit: changes by operators, for operators."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from shardclock_server.gateway.access import Admin
from shardclock_server.gateway.answers.audit import ActAnswer, AuditAnswer
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.page_cursors import cursor_of, place_of
from shardclock_server.service.audit import LISTED_MAX, page_of
from shardclock_server.service.filters import moment_of
from shardclock_server.sql.audit.acts import AuditFilter
from shardclock_server.sql.served import ALL_TENANTS

router = APIRouter(prefix="/v1/audit", tags=["audit"])


class AuditQuery(BaseModel):
    """A filter of audit records, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    since: str | None = Field(None, description="only changes since this moment; without it, all changes")
    verb: str | None = Field(None, description="only changes by this verb, such as `endpoints disable` or `endpoints`")
    actor: str | None = Field(
        None,
        description="only changes by this API key (its name or prefix), this person (name or subject) or this database"
        " role",
    )
    limit: int = Field(100, ge=1, le=LISTED_MAX)
    after: str | None = Field(None, description="the `next` of the previous page")

    def filter_of(self) -> AuditFilter:
        """Return the filter of records."""
        since = None if self.since is None else moment_of("since", self.since)
        return AuditFilter(since, self.verb, self.actor)


@router.get("", response_model=AuditAnswer)
async def list_audit(gateway: CurrentGateway, _: Admin, wanted: Annotated[AuditQuery, Query()]) -> Response:
    """List changes by operators, the newest first."""
    chosen = wanted.filter_of()
    async with gateway.pool.session(ALL_TENANTS) as session:
        page = await page_of(session, chosen, size=wanted.limit, page=place_of(wanted.after))
    return await listing(AuditAnswer, "acts", map(ActAnswer.of, page.acts), next=cursor_of(page.next))
