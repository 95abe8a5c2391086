"""Pending deliveries: list deliveries, cancel a delivery, or make next attempts due now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.changes import UNKNOWN
from shardclock.api.refusals.deliveries import DELIVERY_IS_DEAD_LETTER, NO_PENDING_DELIVERY, UNKNOWN_DELIVERY
from shardclock_server.gateway.access import Manager, Reader, audited_transaction
from shardclock_server.gateway.answers.deliveries import (
    DeadLettersChangedAnswer,
    DeliveriesAnswer,
    DeliveryAnswer,
    DeliveryStateAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.page_cursors import cursor_of, place_of
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.recording import actor_of, note_changed
from shardclock_server.gateway.requests.shared_fields import PAID, DryRun, ManyRequest, ReasonRequest
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.deliveries import (
    AT_ONCE_MAX,
    LISTED_MAX,
    DeliveryResult,
    cancel,
    page_of,
    retry,
    retry_many,
    show,
)
from shardclock_server.sql.deliveries.find import DeliveryFilter, find_delivery
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

LAST_REASON_LINE = (
    "only deliveries with this first line of the last failure's reason; # stands for any number or identifier"
)

router = APIRouter(prefix="/v1/deliveries", tags=["deliveries"])


class RetryRequest(ManyRequest):
    """A filter of deliveries; a missing field excludes no delivery."""

    THINGS: ClassVar[str] = "deliveries"
    FILTERS: ClassVar[tuple[str, ...]] = ("target", "failing", "reason_line")

    target: str | None = Field(None, examples=["webhook:billing"])
    failing: bool = Field(False, description="only deliveries with a failed attempt")
    reason_line: str | None = Field(None, description=LAST_REASON_LINE, examples=["it answered 503"])
    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX)

    def filter_of(self, caller: Caller) -> DeliveryFilter:
        """Return the filter of the caller's deliveries."""
        return DeliveryFilter(
            target=self.target, tenant_id=caller.tenant_id, failing=self.failing, reason_line=self.reason_line
        )


class DeliveriesQuery(BaseModel):
    """A filter of deliveries, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    target: str | None = Field(None, description="only deliveries to this target")
    failing: bool = Field(False, description="only deliveries with a failed attempt")
    reason_line: str | None = Field(None, description=LAST_REASON_LINE)
    limit: int = Field(100, ge=1, le=LISTED_MAX)
    after: str | None = Field(None, description="the `next` of the previous page")


@router.get("", response_model=DeliveriesAnswer)
async def list_deliveries(
    gateway: CurrentGateway, caller: Reader, wanted: Annotated[DeliveriesQuery, Query()]
) -> Response:
    """List deliveries, in the order of target and due date."""
    chosen = DeliveryFilter(
        target=wanted.target, tenant_id=caller.tenant_id, failing=wanted.failing, reason_line=wanted.reason_line
    )
    async with gateway.pool.session(caller.tenants) as session:
        page = await page_of(session, chosen, size=wanted.limit, page=place_of(wanted.after))
    return await listing(
        DeliveriesAnswer, "deliveries", map(DeliveryAnswer.of, page.deliveries), next=cursor_of(page.next)
    )


@router.post(
    "/retry",
    openapi_extra=body_of(RetryRequest, is_needed=False, example={"target": "webhook:billing", "failing": True}),
)
async def retry_deliveries(
    request: Request,
    caller: Manager,
    dry_run: DryRun = False,
) -> DeadLettersChangedAnswer:
    """Make the next attempts of all waiting deliveries that match the filter due now."""
    asked = await read_model(request, RetryRequest)
    return DeadLettersChangedAnswer.of(await retry_selected(request, caller, asked, dry_run=dry_run))


async def retry_selected(request: Request, caller: Caller, asked: RetryRequest, *, dry_run: bool) -> BulkResult[int]:
    """Make the next attempts of the selected deliveries due now, or only count these deliveries."""
    asked.check()
    async with audited_transaction(request, caller.tenants) as session:
        by = actor_of(request, caller)
        changed = await retry_many(session, asked.filter_of(caller), limit=asked.limit, dry_run=dry_run, by=by)
        note_changed(request, len(changed.keys), changed.operation_id)
    return changed


@router.get("/{timer_key:key}")
async def get_delivery(gateway: CurrentGateway, timer_key: Key, caller: Reader) -> DeliveryAnswer:
    """Show a pending delivery."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await find_delivery(session, timer_key)
    is_own = found is not None and found.tenant_id == caller.tenant_id
    if found is not None and is_own and found.state == "DEAD":
        raise Refusal.of(DELIVERY_IS_DEAD_LETTER, timer_key=timer_key)
    if found is None or not is_own:
        raise Refusal.of(NO_PENDING_DELIVERY, timer_key=timer_key)
    return DeliveryAnswer.of(found)


@router.post("/{timer_key:key}/retry")
async def retry_delivery(request: Request, timer_key: Key, caller: Manager) -> DeliveryStateAnswer:
    """Make the next attempt of a delivery due now."""
    async with own_delivery(request, timer_key, caller) as session:
        return _answer_of(await retry(session, timer_key))


@router.post("/{timer_key:key}/cancel", openapi_extra=body_of(ReasonRequest, is_needed=False, example=PAID))
async def cancel_delivery(timer_key: Key, request: Request, caller: Manager) -> DeliveryStateAnswer:
    """Cancel a delivery that no worker has claimed, so that no worker calls its target again."""
    why = await read_model(request, ReasonRequest)
    async with own_delivery(request, timer_key, caller) as session:
        return _answer_of(await cancel(session, timer_key, reason=why.reason))


@asynccontextmanager
async def own_delivery(request: Request, timer_key: int, caller: Caller) -> AsyncIterator[Session]:
    """Open a session to change a delivery of the caller's tenant.

    errors:  Refusal  unknown_delivery, also for a delivery of another tenant
    """
    async with audited_transaction(request, caller.tenants) as session:
        shown = await show(session, timer_key)
        if shown is None or shown.tenant_id != caller.tenant_id:
            raise Refusal.of(UNKNOWN_DELIVERY, timer_key=timer_key, members={"state": UNKNOWN})
        yield session


def _answer_of(answer: DeliveryResult) -> DeliveryStateAnswer:
    return DeliveryStateAnswer(state=answer.state, message=answer.sentence)
