"""Dead letters, the deliveries that were given up: list, redrive and discard them."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Manager, Reader, audited_transaction
from shardclock_server.gateway.answers.deliveries import (
    DeadLetterAnswer,
    DeadLetterGroupsAnswer,
    DeadLettersAnswer,
    DeadLettersChangedAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.page_cursors import cursor_of, place_of
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.recording import actor_of, note_changed
from shardclock_server.gateway.requests.shared_fields import DryRun, ManyRequest
from shardclock_server.service.dead_letters import (
    AT_ONCE_MAX,
    LISTED_MAX,
    DeadLetterChange,
    change_letters,
    discarding,
    page_of,
    redriving,
)
from shardclock_server.service.filters import moment_of
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter
from shardclock_server.sql.deliveries.dead_letters import group_dead_letters as find_groups
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session

PER_S_MAX = 100_000
REASON_LINE = "only dead letters with this first line of the reason; # stands for any number or identifier"
ENABLE = "true: enable a disabled endpoint first; false: the dead letters of a disabled endpoint stay dead"

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])


class DeadLettersQuery(BaseModel):
    """A filter of dead letters, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    target: str | None = Field(None, description="only dead letters of this target")
    reason_line: str | None = Field(None, description=REASON_LINE)
    limit: int = Field(
        100, ge=1, le=LISTED_MAX, description="the limit of dead letters; a page has fewer if they are large"
    )
    after: str | None = Field(None, description="the `next` of the previous page")


class DeadLettersRequest(ManyRequest):
    """A filter of dead letters; a missing field excludes no dead letter."""

    THINGS: ClassVar[str] = "dead letters"
    FILTERS: ClassVar[tuple[str, ...]] = ("target", "died_before", "reason_line")

    target: str | None = Field(None, examples=["webhook:billing"])
    died_before: str | None = Field(None, examples=["2027-01-01T00:00:00Z"])
    reason_line: str | None = Field(None, description=REASON_LINE, examples=["it answered 503"])
    limit: int = Field(
        AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX, description="the limit of dead letters; the oldest come first"
    )

    def filter_of(self, caller: Caller) -> DeadLetterFilter:
        """Return the filter of the caller's dead letters."""
        before = None if self.died_before is None else moment_of("died_before", self.died_before)
        return DeadLetterFilter(
            target=self.target, tenant_id=caller.tenant_id, died_before=before, reason_line=self.reason_line
        )


class RedriveRequest(DeadLettersRequest):
    """A filter of dead letters, and the rate of their new deliveries."""

    per_s: int | None = Field(
        None,
        ge=1,
        le=PER_S_MAX,
        description="the number of deliveries that become due in a second; null: all immediately",
    )
    enable: bool = Field(False, description=ENABLE)


class RedriveOneRequest(BaseModel):
    """The parameters for a redrive of one dead letter."""

    model_config = ConfigDict(extra="forbid")

    enable: bool = Field(False, description=ENABLE)


class DiscardRequest(DeadLettersRequest):
    """A filter of dead letters, and the reason for discarding them."""

    reason: str | None = Field(None, max_length=1_000, description="the reason, which the records store")


def only_letter(timer_key: int, caller: Caller) -> DeadLetterFilter:
    """Return the filter of one dead letter of the caller's tenant."""
    return DeadLetterFilter(timer_key=timer_key, tenant_id=caller.tenant_id)


@router.get("", response_model=DeadLettersAnswer)
async def list_dead_letters(
    gateway: CurrentGateway, caller: Reader, wanted: Annotated[DeadLettersQuery, Query()]
) -> Response:
    """List dead letters, the newest first."""
    chosen = DeadLetterFilter(target=wanted.target, tenant_id=caller.tenant_id, reason_line=wanted.reason_line)
    async with gateway.pool.session(caller.tenants) as session:
        page = await page_of(session, chosen, size=wanted.limit, page=place_of(wanted.after))
    return await listing(
        DeadLettersAnswer, "dead_letters", map(DeadLetterAnswer.of, page.letters), next=cursor_of(page.next)
    )


@router.get("/groups")
async def group_dead_letters(
    gateway: CurrentGateway,
    caller: Reader,
    target: Annotated[str | None, Query(description="only dead letters of this target")] = None,
    all_tenants: Annotated[
        bool, Query(description="group the dead letters of all tenants together; needs a key for all tenants")
    ] = False,
) -> DeadLetterGroupsAnswer:
    """Group the newest 10,000 dead letters by target and by the first line of the reason."""
    if all_tenants:
        caller.require_operator()
    async with gateway.pool.session(ALL_TENANTS if all_tenants else caller.tenants) as session:
        tenant_id = None if all_tenants else caller.tenant_id
        found = await find_groups(session, target=target, tenant_id=tenant_id, across_tenants=all_tenants)
    return DeadLetterGroupsAnswer.of(found)


@router.post(
    "/redrive",
    openapi_extra=body_of(RedriveRequest, is_needed=False, example={"target": "webhook:billing", "per_s": 50}),
)
async def redrive_dead_letters(request: Request, caller: Manager, dry_run: DryRun = False) -> DeadLettersChangedAnswer:
    """Deliver dead letters again; their attempts are counted from one."""
    asked = await read_model(request, RedriveRequest)
    change = partial(redriving, per_s=asked.per_s, enable=asked.enable)
    return await _change_many(request, caller, asked, change, dry_run=dry_run)


@router.post(
    "/discard",
    openapi_extra=body_of(
        DiscardRequest, is_needed=False, example={"target": "webhook:billing", "reason": "sent by hand"}
    ),
)
async def discard_dead_letters(request: Request, caller: Manager, dry_run: DryRun = False) -> DeadLettersChangedAnswer:
    """Discard dead letters permanently."""
    asked = await read_model(request, DiscardRequest)
    return await _change_many(request, caller, asked, partial(discarding, reason=asked.reason), dry_run=dry_run)


@router.post(
    "/{timer_key:key}/redrive", openapi_extra=body_of(RedriveOneRequest, is_needed=False, example={"enable": True})
)
async def redrive_dead_letter(request: Request, timer_key: Key, caller: Manager) -> DeadLettersChangedAnswer:
    """Deliver one dead letter again."""
    asked = await read_model(request, RedriveOneRequest)
    async with audited_transaction(request, caller.tenants) as session:
        acted = await change_letters(
            session, redriving(session, enable=asked.enable), only_letter(timer_key, caller), dry_run=False
        )
    return DeadLettersChangedAnswer.of(acted)


@router.post("/{timer_key:key}/discard")
async def discard_dead_letter(request: Request, timer_key: Key, caller: Manager) -> DeadLettersChangedAnswer:
    """Discard one dead letter permanently."""
    async with audited_transaction(request, caller.tenants) as session:
        acted = await change_letters(session, discarding(session), only_letter(timer_key, caller), dry_run=False)
    return DeadLettersChangedAnswer.of(acted)


async def _change_many(
    request: Request,
    caller: Caller,
    asked: DeadLettersRequest,
    change_of: Callable[[Session], DeadLetterChange],
    *,
    dry_run: bool,
) -> DeadLettersChangedAnswer:
    asked.check()
    wanted, by = asked.filter_of(caller), actor_of(request, caller)
    async with audited_transaction(request, caller.tenants) as session:
        acted = await change_letters(session, change_of(session), wanted, limit=asked.limit, dry_run=dry_run, by=by)
        note_changed(request, len(acted.keys), acted.operation_id)
    return DeadLettersChangedAnswer.of(acted)
