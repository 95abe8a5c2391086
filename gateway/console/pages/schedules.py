"""List schedules: the rule in plain words, the next occurrence, and the lateness of the last firings."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import Viewer
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import Filter, filter_of
from shardclock_server.gateway.console.pages.timers import chosen_of, find_or_refuse, next_url
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.console.strip import strip_of
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.routes.finding import TimersQuery
from shardclock_server.service.schedules import with_firings
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.clients.search import OPEN_STATES
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.rule_words import describe_rule
from shardclock_server.timers.schedule import parse_schedule

SHOWN_MAX = 25  # Each row has a strip of 30 bars.
PAUSED_MAX = 10  # The first page shows at most this many paused schedules, after the pending schedules.

router = page_router()


class SchedulesPageQuery(TimersQuery):
    """A filter of schedules, and the cursor of the page."""

    limit: int = Field(SHOWN_MAX, ge=1, le=SHOWN_MAX)


@router.get("/schedules")
async def list_schedules(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show one page of the schedules that match the filter."""
    asked = filter_of(request, SchedulesPageQuery)
    only = replace(asked, model=asked.model.model_copy(update={"only_schedules": True}))
    found, wanted = await find_or_refuse(gateway, caller, only)
    paused = [] if {"state", "after"} & wanted.given.keys() else await _paused(gateway, caller, only)
    async with gateway.pool.session(caller.tenants) as session:
        schedules = await with_firings(session, caller.tenant_id, [*found.timers, *paused])
    rows = [(it, words_of(it.timer), strip_of(it.firings)) for it in schedules]
    state = wanted.model.state.lower()
    return page(
        request,
        caller,
        "schedules.html",
        status=wanted.status,
        title="Schedules",
        error=wanted.error,
        rows=rows[: len(found.timers)],
        paused=rows[len(found.timers) :],
        paused_max=PAUSED_MAX,
        next_url=next_url(request, "/schedules", wanted.given, found),
        given=wanted.given,
        chosen={**chosen_of(wanted.given), "state": state, "only_schedules": "true"},
        state=state,
        is_changeable=state in OPEN_STATES and wanted.error is None,
        states=[(it, it) for it in OPEN_STATES],
    )


async def _paused(gateway: Gateway, caller: Caller, wanted: Filter[SchedulesPageQuery]) -> Sequence[TimerState]:
    """Find some paused schedules for a filter of pending schedules, because a user may look for a paused schedule."""
    update = {"state": "paused", "limit": PAUSED_MAX}
    found, _ = await find_or_refuse(gateway, caller, replace(wanted, model=wanted.model.model_copy(update=update)))
    return found.timers


def words_of(timer: TimerState) -> str:
    """Describe a schedule's rule in plain words; for an invalid rule, return the refusal."""
    assert timer.schedule is not None, "the search finds schedules"
    try:
        return describe_rule(parse_schedule(timer.schedule, timer.zone or "UTC"))
    except InvalidTimer as refusal:
        return str(refusal)
