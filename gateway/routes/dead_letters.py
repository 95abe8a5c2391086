"""Dead letters: deliveries that were given up. They are looked at, and redriven or discarded."""

from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Manager, Reader, acting
from shardclock_server.gateway.answers.deliveries import ActedAnswer, DeadLetterAnswer, DeadLettersAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import DryRun, ManyRequest
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.problems import NOT_FOUND, Problem
from shardclock_server.service.dead_letters import AT_ONCE_MAX, LISTED_MAX, discard, page_of, redrive
from shardclock_server.service.filters import moment_of
from shardclock_server.service.many import Changed
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter

PER_S_MAX = 100_000
ENABLE = "true: an endpoint that is disabled is enabled first; else its dead letters stay as they are"

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])


class DeadLettersQuery(BaseModel):
    """Which dead letters are listed."""

    model_config = ConfigDict(extra="forbid")

    target: str | None = Field(None, description="only of this target")
    limit: int = Field(100, ge=1, le=LISTED_MAX, description="at most so many; fewer if they are large")
    after: str | None = Field(None, description="the last answer's `next`")


class DeadLettersRequest(ManyRequest):
    """Which dead letters are meant; what is not given leaves none out."""

    THINGS: ClassVar[str] = "dead letters"
    FILTERS: ClassVar[tuple[str, ...]] = ("target", "died_before")

    target: str | None = Field(None, examples=["webhook:billing"])
    died_before: str | None = Field(None, examples=["2027-01-01T00:00:00Z"])
    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX, description="at most so many, those that were given up first")

    def filter_of(self, caller: Caller) -> DeadLetterFilter:
        """Make it a filter of the caller's dead letters."""
        before = None if self.died_before is None else moment_of("died_before", self.died_before)
        return DeadLetterFilter(target=self.target, tenant_id=caller.tenant_id, died_before=before)


class RedriveRequest(DeadLettersRequest):
    """Which dead letters are delivered again, and how fast."""

    per_s: int | None = Field(None, ge=1, le=PER_S_MAX, description="so many become due in a second; null: all at once")
    enable: bool = Field(False, description=ENABLE)


class RedriveOneRequest(BaseModel):
    """How one dead letter is delivered again."""

    model_config = ConfigDict(extra="forbid")

    enable: bool = Field(False, description=ENABLE)


class DiscardRequest(DeadLettersRequest):
    """Which dead letters are dropped, and why."""

    reason: str | None = Field(None, max_length=1_000, description="kept in their records")


@router.get("", response_model=DeadLettersAnswer)
async def list_dead_letters(gateway: Here, caller: Reader, wanted: Annotated[DeadLettersQuery, Query()]) -> Response:
    """List dead letters, the newest first."""
    chosen = DeadLetterFilter(target=wanted.target, tenant_id=caller.tenant_id)
    async with gateway.pool.session(caller.tenants) as session:
        page = await page_of(session, chosen, size=wanted.limit, page=wanted.after)
    return await listing(DeadLettersAnswer, "dead_letters", map(DeadLetterAnswer.of, page.letters), next=page.next)


@router.post(
    "/redrive",
    openapi_extra=body_of(RedriveRequest, is_needed=False, example={"target": "webhook:billing", "per_s": 50}),
)
async def redrive_dead_letters(request: Request, caller: Manager, dry_run: DryRun = False) -> ActedAnswer:
    """Deliver dead letters again, from their first attempt on."""
    asked = await read_model(request, RedriveRequest)
    asked.check()
    async with acting(request, caller.tenants) as session:
        acted = await redrive(
            session, asked.filter_of(caller), limit=asked.limit, per_s=asked.per_s, enable=asked.enable, dry_run=dry_run
        )
    return ActedAnswer.of(acted)


@router.post(
    "/discard",
    openapi_extra=body_of(
        DiscardRequest, is_needed=False, example={"target": "webhook:billing", "reason": "sent by hand"}
    ),
)
async def discard_dead_letters(request: Request, caller: Manager, dry_run: DryRun = False) -> ActedAnswer:
    """Discard dead letters for good."""
    asked = await read_model(request, DiscardRequest)
    asked.check()
    async with acting(request, caller.tenants) as session:
        acted = await discard(session, asked.filter_of(caller), limit=asked.limit, reason=asked.reason, dry_run=dry_run)
    return ActedAnswer.of(acted)


@router.post(
    "/{timer_key:key}/redrive", openapi_extra=body_of(RedriveOneRequest, is_needed=False, example={"enable": True})
)
async def redrive_dead_letter(request: Request, timer_key: Key, caller: Manager) -> ActedAnswer:
    """Deliver one dead letter again."""
    asked = await read_model(request, RedriveOneRequest)
    async with acting(request, caller.tenants) as session:
        acted = await redrive(session, _only(timer_key, caller), enable=asked.enable, dry_run=False)
        return _one(timer_key, acted)


@router.post("/{timer_key:key}/discard")
async def discard_dead_letter(request: Request, timer_key: Key, caller: Manager) -> ActedAnswer:
    """Discard one dead letter for good."""
    async with acting(request, caller.tenants) as session:
        return _one(timer_key, await discard(session, _only(timer_key, caller), dry_run=False))


def _only(timer_key: int, caller: Caller) -> DeadLetterFilter:
    return DeadLetterFilter(timer_key=timer_key, tenant_id=caller.tenant_id)


def _one(timer_key: int, acted: Changed[int]) -> ActedAnswer:
    if not acted.keys:
        raise Problem(NOT_FOUND, f"there is no dead letter {timer_key}")
    return ActedAnswer.of(acted)
