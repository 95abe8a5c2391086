"""Find timers by a filter, page by page."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from shardclock.api.codes import invalid
from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.timers import TimerAnswer, TimersAnswer
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.page_cursors import cursor_of, place_of
from shardclock_server.gateway.requests.shared_fields import TIMERS_PAGE, TimersFilter
from shardclock_server.gateway.routes.creating import TIMERS
from shardclock_server.sql.clients.search import TIMER_STATES, Page, PageLimits, find_timers
from shardclock_server.timers.refusal import InvalidTimer, unknown

router = APIRouter(prefix=TIMERS, tags=["timers"])


class TimersQuery(TimersFilter):
    """A filter of timers, and the cursor of the page; a missing field excludes no timer."""

    state: str = Field("pending", description=f"one of {', '.join(TIMER_STATES)}, in upper or lower case")
    name: str | None = Field(None, description="only timers with this name")
    order_by: str | None = Field(
        None,
        description="`due` or `change`. `change` lists the most recently changed timers first, and leaves out timers "
        "that no client has changed. Ended timers are always listed in the order `change`.",
        examples=["change"],
    )
    limit: int = Field(100, ge=1, le=1_000)
    after: str | None = Field(None, description="the `next` of the previous page")


@router.get("", response_model=TimersAnswer)
async def list_timers(gateway: CurrentGateway, caller: Reader, wanted: Annotated[TimersQuery, Query()]) -> Response:
    """List timers: pending timers soonest first, paused timers by key, or ended timers newest first.

    A page ends when its payloads reach 4 MiB. A search for ended timers reads the log, and a search by a part of the
    name reads all names. After a long read, the page ends early and may be empty. If a page has a `next`, there are
    more pages.
    """
    page = await find_page(gateway, caller, wanted)
    return await listing(TimersAnswer, "timers", map(TimerAnswer.of, page.timers), next=page.next)


async def find_page(gateway: Gateway, caller: Caller, wanted: TimersQuery, *, limits: PageLimits = TIMERS_PAGE) -> Page:
    """Find one page of the timers that the caller may see.

    errors:  InvalidTimer      a filter or the page is refused
             StoreUnavailable  Postgres did not answer within the timeout
    """
    state = wanted.state
    if state.lower() not in TIMER_STATES:
        raise InvalidTimer.of(invalid("state"), why=unknown(state, TIMER_STATES))
    async with gateway.pool.session(caller.tenants) as session:
        page = await find_timers(
            session,
            state.upper(),
            wanted.filter_of(caller),
            name=wanted.name,
            order_by=wanted.order_by,
            size=wanted.limit,
            page=place_of(wanted.after),
            limits=limits,
        )
    shown = [timer for timer in page.timers if caller.sees(timer.tenant_id, timer.target)]
    return replace(page, timers=shown, next=cursor_of(page.next))
