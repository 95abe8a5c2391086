"""List schedules with their last firings, and preview the occurrences of a rule before any timer is scheduled."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from shardclock.api.codes import invalid
from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.timers import (
    OccurrenceAnswer,
    PreviewAnswer,
    RefusedTimerAnswer,
    RefusedTimersAnswer,
    ScheduleAnswer,
    SchedulesAnswer,
)
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.page_cursors import cursor_of, place_of
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.shared_fields import TIMERS_PAGE, TimersFilter, find_shown
from shardclock_server.service.schedules import SCHEDULES_MAX, ScheduleState, with_firings
from shardclock_server.service.single_change import UnknownTimer
from shardclock_server.sql.clients.refused import find_refused
from shardclock_server.sql.clients.search import OPEN_STATES, find_timers
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.occurrence import ScheduleRule
from shardclock_server.timers.preview import PreviewedOccurrence, iterate_preview
from shardclock_server.timers.refusal import InvalidTimer, shortened, unknown
from shardclock_server.timers.schedule import first_of, parse_schedule
from shardclock_server.timers.zone import zone_of

FORESEEN_MAX = 1_000
REFUSED_MAX = 1_000
PREVIEW_S = 0.5  # the limit of processor time for a preview; even the rarest rules need only a fifth of it

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])


class SchedulesQuery(TimersFilter):
    """A filter of schedules, and the cursor of the page; a missing field excludes no schedule."""

    state: str = Field("pending", description=f"{' or '.join(OPEN_STATES)}, in upper or lower case")
    order_by: str | None = Field(None, description="due or change, as for a list of timers", examples=["change"])
    limit: int = Field(SCHEDULES_MAX, ge=1, le=SCHEDULES_MAX)
    after: str | None = Field(None, description="the `next` of the previous page")


@router.get("", response_model=SchedulesAnswer)
async def list_schedules(
    gateway: CurrentGateway, caller: Reader, wanted: Annotated[SchedulesQuery, Query()]
) -> Response:
    """List pending or paused schedules, each with its last firings, sorted like the list of timers."""
    page = await find_schedules(gateway, caller, wanted)
    return await listing(
        SchedulesAnswer, "schedules", map(ScheduleAnswer.of, page.schedules), next=cursor_of(page.next)
    )


@router.get("/refused", operation_id="list_refused_timers", response_model=RefusedTimersAnswer)
async def list_refused(
    gateway: CurrentGateway, caller: Reader, limit: Annotated[int, Query(ge=1, le=REFUSED_MAX)] = 100
) -> Response:
    """List the timers that shards could not fire and have paused; the timer that was paused last comes first."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await find_refused(session, caller.tenant_id, with_jobs=caller.is_operator, limit=limit)
    return await listing(RefusedTimersAnswer, "timers", map(RefusedTimerAnswer.of, found))


class SchedulesFound(NamedTuple):
    """One page of schedules, and the `after` of the next page."""

    schedules: list[ScheduleState]
    next: str | None


async def find_schedules(gateway: Gateway, caller: Caller, wanted: SchedulesQuery) -> SchedulesFound:
    """Find one page of the schedules that the caller may see, each with its last firings.

    errors:  InvalidTimer      a filter or the page is refused
             StoreUnavailable  Postgres did not answer within the timeout
    """
    if wanted.state.lower() not in OPEN_STATES:
        raise InvalidTimer.of(invalid("state"), why=unknown(wanted.state, OPEN_STATES))
    async with gateway.pool.session(caller.tenants) as session:
        page = await find_timers(
            session,
            wanted.state.upper(),
            replace(wanted.filter_of(caller), only_schedules=True),
            order_by=wanted.order_by,
            size=wanted.limit,
            page=place_of(wanted.after),
            limits=TIMERS_PAGE,
        )
        shown = [timer for timer in page.timers if caller.sees(timer.tenant_id, timer.target)]
        return SchedulesFound(await with_firings(session, caller.tenant_id, shown), page.next)


@router.get("/by-name/{name}")
async def get_schedule(name: Name, gateway: CurrentGateway, caller: Reader) -> ScheduleAnswer:
    """Show a pending or paused schedule with its last firings."""
    which = TimerRef(None, name, caller.tenant_id)
    async with gateway.pool.session(caller.tenants) as session:
        timer = await find_shown(session, which, caller)
        if timer.schedule is None or timer.ended_at is not None:
            raise UnknownTimer(which)
        (schedule,) = await with_firings(session, caller.tenant_id, [timer])
    return ScheduleAnswer.of(schedule)


@router.get("/preview")
async def preview_schedule(
    gateway: CurrentGateway,
    caller: Reader,
    *,
    rule: Annotated[str, Query(description="the rule: an ISO 8601 repeat or cron", examples=["0 8 * * MON"])],
    zone: Annotated[str, Query(description="the time zone of the rule", examples=["Europe/Berlin"])] = "UTC",
    count: Annotated[int, Query(ge=1, le=FORESEEN_MAX)] = 10,
    start: Annotated[
        str | None, Query(alias="from", description="the moment at which the timer would be scheduled; without it, now")
    ] = None,
) -> PreviewAnswer:
    """Show the next dates of a schedule, with a note at each date that daylight saving time changes."""
    schedule = parse_schedule(rule, zone_of(zone).key)
    created = datetime.now(UTC).replace(microsecond=0) if start is None else parse_due_date(start, schedule.zone)
    previewed = await preview_rule(gateway, caller, schedule, created, count)
    return PreviewAnswer(occurrences=[OccurrenceAnswer.of(one) for one in previewed])


async def preview_rule(
    gateway: Gateway, caller: Caller, rule: ScheduleRule, created: datetime, count: int
) -> list[PreviewedOccurrence]:
    """Compute the occurrences of a rule, in the thread that the gateway has for previews.

    errors:  InvalidTimer  the rule never occurs, or takes too long
             Problem       too many previews wait already
    """
    return await gateway.previews.run(caller.tenant_id, _preview, rule, created, count)


def _preview(rule: ScheduleRule, created: datetime, count: int) -> list[PreviewedOccurrence]:
    """Compute the occurrences of a rule, within a limit of processor time.

    errors:  InvalidTimer  the rule never occurs, or the limit is reached
    """
    until_s = time.thread_time() + PREVIEW_S
    first_of(rule, created)
    found: list[PreviewedOccurrence] = []
    for occurrence in iterate_preview(rule, created, count=count):
        found.append(occurrence)
        if time.thread_time() > until_s and len(found) < count:
            raise InvalidTimer(
                f"a preview of {shortened(str(rule))} may take {PREVIEW_S:g} s of the processor, and {len(found):,} of"
                f" {count:,} occurrences took as long; ask for count={len(found)} or less, and for more with from"
            )
    return found
