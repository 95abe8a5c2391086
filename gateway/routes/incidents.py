"""Incidents, the tokens that can't continue until an operator corrects the cause: list and resolve incidents."""

from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Manager, Reader
from shardclock_server.gateway.answers.incidents import IncidentAnswer, IncidentsAnswer, ResolvedAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.recording import actor_of, note_changed
from shardclock_server.gateway.requests.shared_fields import DryRun, ManyRequest
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.service.incidents import AT_ONCE_MAX, resolve_many
from shardclock_server.sql.processes.incidents import IncidentFilter, find_incidents
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import INTEGER_MAX, NAME_CHARS_MAX

LISTED_MAX = 1_000

router = APIRouter(prefix="/v1/incidents", tags=["processes"])


class IncidentsFilter(BaseModel):
    """A filter of incidents; a missing field excludes no incident."""

    model_config = ConfigDict(extra="forbid")

    process_id: str | None = Field(None, description="only incidents of this process", examples=["order"])
    version: int | None = Field(None, ge=1, le=INTEGER_MAX, description="only incidents of this version of the process")
    containing: str | None = Field(
        None,
        min_length=1,
        max_length=NAME_CHARS_MAX,
        description="only incidents with this text in their reason, in upper or lower case",
        examples=["the card is expired"],
    )

    def filter_of(self, caller: Caller) -> IncidentFilter:
        """Return the filter of the caller's incidents."""
        return IncidentFilter(caller.tenant_id, self.process_id, self.version, self.containing)


class IncidentsQuery(IncidentsFilter):
    """A filter of incidents, and the number of results."""

    limit: int = Field(100, ge=1, le=LISTED_MAX)


class ResolveIncidentsRequest(ManyRequest, IncidentsFilter):
    """A filter of incidents to resolve."""

    THINGS: ClassVar[str] = "incidents"
    FILTERS: ClassVar[tuple[str, ...]] = ("process_id", "version", "containing")

    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX, description="the limit of incidents; the newest come first")


@router.get("", response_model=IncidentsAnswer)
async def list_incidents(
    gateway: CurrentGateway, caller: Reader, wanted: Annotated[IncidentsQuery, Query()]
) -> Response:
    """List incidents, the newest first."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await find_incidents(session, wanted.filter_of(caller), limit=wanted.limit)
    return await listing(IncidentsAnswer, "incidents", map(IncidentAnswer.of, found))


@router.post(
    "/resolve",
    response_model=ResolvedAnswer,
    openapi_extra=body_of(
        ResolveIncidentsRequest, is_needed=False, example={"process_id": "order", "containing": "the card is expired"}
    ),
)
async def resolve_incidents(request: Request, caller: Manager, dry_run: DryRun = False) -> Response:
    """Resolve incidents, so that their tokens continue at their nodes.

    If the incident's signal is a dead letter, the signal is redriven.
    """
    asked = await read_model(request, ResolveIncidentsRequest)
    asked.check()

    async def do(session: Session) -> ResolvedAnswer:
        by = actor_of(request, caller)
        done = await resolve_many(session, asked.filter_of(caller), limit=asked.limit, dry_run=dry_run, by=by)
        note_changed(request, len(done.keys), done.operation_id)
        return ResolvedAnswer.of(done)

    return await run_idempotent(request, caller, asked, do, dry_run=dry_run)
