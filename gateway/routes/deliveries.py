"""Deliveries that are on their way: look at them, end one, or make next attempts due now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.changes import UNKNOWN
from shardclock_server.gateway.access import Manager, Reader, acting
from shardclock_server.gateway.answers.deliveries import (
    ActedAnswer,
    DeliveriesAnswer,
    DeliveryAnswer,
    DeliveryStateAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import PAID, DryRun, ManyRequest, ReasonRequest
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.problems import NOT_FOUND, TOO_LATE, Problem
from shardclock_server.service.deliveries import (
    AT_ONCE_MAX,
    LEFT,
    LISTED_MAX,
    Answer,
    cancel,
    page_of,
    retry,
    retry_many,
    show,
)
from shardclock_server.sql.deliveries.find import DeliveryFilter, find_delivery
from shardclock_server.sql.session import Session

router = APIRouter(prefix="/v1/deliveries", tags=["deliveries"])


class RetryRequest(ManyRequest):
    """Which deliveries are meant; what is not given leaves none out."""

    THINGS: ClassVar[str] = "deliveries"
    FILTERS: ClassVar[tuple[str, ...]] = ("target", "failing")

    target: str | None = Field(None, examples=["webhook:billing"])
    failing: bool = Field(False, description="only those with a failed attempt")
    limit: int = Field(AT_ONCE_MAX, ge=1, le=AT_ONCE_MAX)


class DeliveriesQuery(BaseModel):
    """Which deliveries are listed."""

    model_config = ConfigDict(extra="forbid")

    target: str | None = Field(None, description="only to this target")
    failing: bool = Field(False, description="only those with a failed attempt")
    limit: int = Field(100, ge=1, le=LISTED_MAX)
    after: str | None = Field(None, description="the last answer's `next`")


@router.get("", response_model=DeliveriesAnswer)
async def list_deliveries(gateway: Here, caller: Reader, wanted: Annotated[DeliveriesQuery, Query()]) -> Response:
    """List deliveries by target, what is due first coming first."""
    chosen = DeliveryFilter(target=wanted.target, tenant_id=caller.tenant_id, failing=wanted.failing)
    async with gateway.pool.session(caller.tenants) as session:
        page = await page_of(session, chosen, size=wanted.limit, page=wanted.after)
    return await listing(DeliveriesAnswer, "deliveries", map(DeliveryAnswer.of, page.deliveries), next=page.next)


@router.post(
    "/retry",
    openapi_extra=body_of(RetryRequest, is_needed=False, example={"target": "webhook:billing", "failing": True}),
)
async def retry_deliveries(
    request: Request,
    caller: Manager,
    dry_run: DryRun = False,
) -> ActedAnswer:
    """Make the next attempts of all deliveries that wait for them due now."""
    asked = await read_model(request, RetryRequest)
    asked.check()
    wanted = DeliveryFilter(target=asked.target, tenant_id=caller.tenant_id, failing=asked.failing)
    async with acting(request, caller.tenants) as session:
        return ActedAnswer.of(await retry_many(session, wanted, limit=asked.limit, dry_run=dry_run))


@router.get("/{timer_key:key}")
async def get_delivery(gateway: Here, timer_key: Key, caller: Reader) -> DeliveryAnswer:
    """Show a delivery that is on its way."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await find_delivery(session, timer_key)
    is_own = found is not None and found.tenant_id == caller.tenant_id
    if found is not None and is_own and found.state == "DEAD":
        raise Problem(NOT_FOUND, f"the delivery of timer {timer_key} is a dead letter; /v1/dead-letters lists those")
    if found is None or not is_own:
        sentence = f"no delivery of timer {timer_key} is on its way: it has ended, or never was; the log has its end"
        raise Problem(NOT_FOUND, sentence)
    return DeliveryAnswer.of(found)


@router.post("/{timer_key:key}/retry")
async def retry_delivery(request: Request, timer_key: Key, caller: Manager) -> DeliveryStateAnswer:
    """Make the next attempt of a delivery due now."""
    async with _own(request, timer_key, caller) as session:
        return _done(await retry(session, timer_key))


@router.post("/{timer_key:key}/cancel", openapi_extra=body_of(ReasonRequest, is_needed=False, example=PAID))
async def cancel_delivery(timer_key: Key, request: Request, caller: Manager) -> DeliveryStateAnswer:
    """End a delivery that nobody has in hand: its target is not called any more."""
    why = await read_model(request, ReasonRequest)
    async with _own(request, timer_key, caller) as session:
        return _done(await cancel(session, timer_key, reason=why.reason))


@asynccontextmanager
async def _own(request: Request, timer_key: int, caller: Caller) -> AsyncIterator[Session]:
    """Lend a session to act on a delivery, if it is or was the caller's.

    errors:  Problem  it is not
    """
    async with acting(request, caller.tenants) as session:
        shown = await show(session, timer_key)
        if shown is None or shown.tenant_id != caller.tenant_id:
            raise Problem(NOT_FOUND, LEFT[UNKNOWN].format(key=timer_key), state=UNKNOWN)
        yield session


def _done(answer: Answer) -> DeliveryStateAnswer:
    if answer.done:
        return DeliveryStateAnswer(state=answer.state, said=answer.sentence)
    raise Problem(NOT_FOUND if answer.state == UNKNOWN else TOO_LATE, answer.sentence, state=answer.state)
