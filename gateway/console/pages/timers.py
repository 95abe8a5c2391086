"""Find timers by a filter in the URL, and change all timers that match the filter."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import BulkChanger, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import Filter, filter_of, form_of
from shardclock_server.gateway.console.pages.operations import begun
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, Gateway, gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.shared_fields import TIMERS_PAGE, TimersFilter
from shardclock_server.gateway.routes.bulk import (
    KEYS_MAX,
    BulkChangeRequest,
    BulkFilter,
    TimerKey,
    begin_counted,
    count_for_page,
)
from shardclock_server.gateway.routes.finding import TimersQuery, find_page
from shardclock_server.service.missed_count import MissedCount, read_missed, sum_missed
from shardclock_server.service.wording import counted
from shardclock_server.sql.clients.search import OPEN_STATES, TIMER_STATES, Page, count_timers
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.tenant_limits.tenant_limits import UNINDEXED
from shardclock_server.timers.refusal import Refusal
from shardclock_server.timers.schedule import MissedChoice

SHOWN_MAX = 50
MATCHES_MAX = 10_000  # a list counts at most this many timers; the statement stops at the next one
NO_TIMERS = Page([], next=None)
# A search for a part of a name reads names for at most this time; then the page ends with a link that continues the
# search.
SEARCH_S = 0.1
CHANGED = {"cancel": "cancelled", "pause": "paused", "resume": "resumed", "shift": "moved"}
LABELS = {"cancel": "Cancel", "pause": "Pause", "resume": "Resume", "shift": "Move"}
ORDERS = (("", "usual"), ("change", "last change"))
MISSED_CHOICES = (
    ("policy", "policy: the schedule's own rule"),
    ("skip", "skip: none fires; the schedule continues with the next date"),
    ("fire_once", "fire_once: one firing for all"),
    ("fire_all", "fire_all: each occurrence fires, in order"),
)
CHANGED_STATES = {"cancel": "pending or paused", "pause": "pending", "resume": "paused", "shift": "pending or paused"}

Wanted = TypeVar("Wanted", bound=TimersQuery)

router = page_router()


class TimersPageQuery(TimersQuery):
    """A filter of timers, and the cursor of the page."""

    limit: int = Field(SHOWN_MAX, ge=1, le=SHOWN_MAX)


class ChangeForm(BulkFilter):
    """A change of all timers that match a filter, with the token that the dry run has returned."""

    timer_keys: list[TimerKey] = Field([], max_length=KEYS_MAX)  # empty (no row selected): all timers that match
    reason: str | None = Field(None, max_length=1_000)
    shift: str | None = None
    until: str | None = None
    missed: MissedChoice = MissedChoice.POLICY
    token: str | None = None

    def request(self) -> BulkChangeRequest:
        """Return the body of the API's request."""
        chosen = BulkFilter(**self.filter_fields(), timer_keys=self.timer_keys or None)
        change = self.model_dump(include={"reason", "shift", "until", "missed"})
        return BulkChangeRequest(filter=chosen, **change)

    def filter_fields(self) -> dict[str, Any]:
        """Return the given fields of the filter, without the selected keys: the fields of a list's URL."""
        return self.model_dump(include=set(BulkFilter.model_fields) - {"timer_keys"}, exclude_defaults=True)


@router.get("/timers")
async def list_timers(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show one page of the timers that match the filter."""
    found, wanted = await find_or_refuse(gateway, caller, filter_of(request, TimersPageQuery))
    state = wanted.model.state.lower()
    return page(
        request,
        caller,
        "timers.html",
        status=wanted.status,
        title="Timers",
        error=wanted.error,
        timers=found.timers,
        matches=await _matches(gateway, caller, wanted, found),
        next_url=next_url(request, "/timers", wanted.given, found),
        given=wanted.given,
        chosen={**chosen_of(wanted.given), "state": state},
        first={name: value for name, value in wanted.given.items() if name != "after"},
        state=state,
        states=[(it, it) for it in TIMER_STATES],
        orders=ORDERS,
        is_open=state in OPEN_STATES,
        is_changeable=state in OPEN_STATES and wanted.model.name is None and wanted.error is None,
    )


async def _matches(gateway: Gateway, caller: Caller, wanted: Filter[TimersPageQuery], found: Page) -> str | None:
    """Describe how many timers match the filter; None: a count could read too many rows, or would be wrong."""
    query = wanted.model
    if wanted.error is not None or (not found.timers and found.next is None):
        return None
    if query.after is None and found.next is None:
        return _match_line(len(found.timers))
    # A search for a part of a name reads all names. The order `change` leaves out timers.
    if query.state.lower() not in OPEN_STATES or query.name or query.name_contains or query.order_by:
        return None
    async with gateway.pool.session(caller.tenants) as session:
        count = await count_timers(session, query.state.upper(), query.filter_of(caller), most=MATCHES_MAX + 1)
    if count.left_out and caller.tenant_id == UNINDEXED and not caller.is_operator:
        return None  # the count has timers of jobs, which the caller may not see
    if not count.is_whole:
        return f"More than {MATCHES_MAX:,} timers match"
    return _match_line(count.matched + count.left_out)


def _match_line(number: int) -> str:
    return f"{counted(number, 'timer')} {'matches' if number == 1 else 'match'}"


async def find_or_refuse(gateway: Gateway, caller: Caller, wanted: Filter[Wanted]) -> tuple[Page, Filter[Wanted]]:
    """Find a page of timers; for a refused filter, return no timers and a filter with the refusal's sentence.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    if wanted.error is None:
        try:
            return await find_page(
                gateway, caller, wanted.model, limits=TIMERS_PAGE._replace(within_s=SEARCH_S)
            ), wanted
        except Refusal as refusal:
            wanted = wanted.refused(refusal)
    return NO_TIMERS, wanted


def next_url(request: Request, path: str, given: Mapping[str, Any], found: Page) -> str | None:
    """Build the URL of the next page; None: there is no next page."""
    return None if found.next is None else url_of(request, path, **{**given, "after": found.next})


def chosen_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a page's filter that a bulk change also supports."""
    return {name: value for name, value in given.items() if name in TimersFilter.model_fields}


DryRun = Annotated[bool, Query(description="count the timers only")]


def _add_bulk_route(verb: str) -> None:
    @router.post(f"/timers/bulk/{verb}", name=f"console_{verb}_timers")
    async def change_timers(request: Request, caller: BulkChanger, *, dry_run: DryRun = False) -> Response:
        """Count the timers that match a filter, and ask for a confirmation; or start the change of these timers."""
        form = await form_of(request, ChangeForm)
        if not dry_run:
            bulk = await begin_counted(request, caller, verb, form.request(), form.token)
            return begun(request, bulk, url_of(request, "/timers", **form.filter_fields()))
        count, token = await count_for_page(request, caller, verb, form.request())
        return page(
            request,
            caller,
            "timers_change.html",
            title=f"{LABELS[verb]} timers",
            verb=verb,
            label=LABELS[verb],
            participle=CHANGED[verb],
            state=form.state or CHANGED_STATES[verb],
            count=count,
            token=token,
            form=form,
            chosen=form.filter_fields(),
            selected=form.timer_keys,
            missed=await _missed_of(gateway_of(request), caller, form) if verb == "resume" else None,
            missed_choices=MISSED_CHOICES,
            live=False,
        )


async def _missed_of(gateway: Gateway, caller: Caller, form: ChangeForm) -> MissedCount:
    """Count the missed occurrences of the paused schedules that match a filter."""
    async with gateway.pool.session(caller.tenants) as session:
        only_schedules = replace(form.request().filter.filter_of(caller), only_schedules=True)
        plans, are_all = await read_missed(session, only_schedules)
        now = await read_clock(session)
    return await gateway.previews.run(caller.tenant_id, partial(sum_missed, plans, now, are_all=are_all))


for _verb in CHANGED:
    _add_bulk_route(_verb)
