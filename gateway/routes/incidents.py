"""Incidents: tokens that can't go on until somebody has corrected what is wrong. They are looked at, and resolved."""

from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Manager, Reader
from shardclock_server.gateway.answers.incidents import IncidentAnswer, IncidentsAnswer, ResolvedAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import DryRun, ManyRequest
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.routes.doing import do_once
from shardclock_server.service.incidents import AT_ONCE_MAX, resolve_many
from shardclock_server.sql.processes.incidents import IncidentFilter, find_incidents
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import INTEGER_MAX, NAME_CHARS_MAX

LISTED_MAX = 1_000

router = APIRouter(prefix="/v1/incidents", tags=["processes"])


class IncidentsFilter(BaseModel):
    """Which incidents are meant; what is not given leaves none out."""

    model_config = ConfigDict(extra="forbid")

    process_id: str | None = Field(None, description="only of this process", examples=["order"])
    version: int | None = Field(None, ge=1, le=INTEGER_MAX, description="only of this version of the process")
    saying: str | None = Field(
        None,
        min_length=1,
        max_length=NAME_CHARS_MAX,
        description="only those whose sentence has this text, upper or lower case",
        examples=["the card is expired"],
    )

    def filter_of(self, caller: Caller) -> IncidentFilter:
        """Make it a filter of the caller's incidents."""
        return IncidentFilter(caller.tenant_id, self.process_id, self.version, self.saying)


class IncidentsQuery(IncidentsFilter):
    """Which incidents are listed."""

    limit: int = Field(100, ge=1, le=LISTED_MAX)


class ResolveIncidentsRequest(ManyRequest, IncidentsFilter):
    """Which incidents are resolved."""

    THINGS: ClassVar[str] = "incidents"
    FILTERS: ClassVar[tuple[str, ...]] = ("process_id", "version", "saying")

    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX, description="at most so many, the newest of them")


@router.get("", response_model=IncidentsAnswer)
async def list_incidents(gateway: Here, caller: Reader, wanted: Annotated[IncidentsQuery, Query()]) -> Response:
    """List incidents, the newest first."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await find_incidents(session, wanted.filter_of(caller), limit=wanted.limit)
    return await listing(IncidentsAnswer, "incidents", map(IncidentAnswer.of, found))


@router.post(
    "/resolve",
    response_model=ResolvedAnswer,
    openapi_extra=body_of(
        ResolveIncidentsRequest, is_needed=False, example={"process_id": "order", "saying": "the card is expired"}
    ),
)
async def resolve_incidents(request: Request, caller: Manager, dry_run: DryRun = False) -> Response:
    """Resolve incidents: their tokens go on where they stopped. Signals that are dead letters are redriven instead."""
    asked = await read_model(request, ResolveIncidentsRequest)
    asked.check()

    async def do(session: Session) -> ResolvedAnswer:
        done = await resolve_many(session, asked.filter_of(caller), limit=asked.limit, dry_run=dry_run)
        return ResolvedAnswer.of(done)

    return await do_once(request, caller, asked, do, dry_run=dry_run)
