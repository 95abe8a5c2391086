"""Show, explain and change one timer; list the timer's occurrences and show its delivery."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Depends
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.changes import CANCELED, OPERATED, PAUSED, RESCHEDULED, RESUMED, RUN, VerbOutcomes
from shardclock.log import LogRecord
from shardclock.log.record import SIGNAL
from shardclock_server.gateway.console.access import Changer, Manager, Viewer, signed_in
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import Filter, done, filter_of, form_of
from shardclock_server.gateway.console.pages.timers import MISSED_CHOICES
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.console.strip import strip_of
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import with_slashes
from shardclock_server.gateway.requests.shared_fields import PauseRequest, ReasonRequest, ResumeRequest
from shardclock_server.gateway.routes.changing import change_found, change_rule, operate_own
from shardclock_server.gateway.routes.timers import (
    FAR,
    OperateRequest,
    RescheduleRequest,
    add_authors,
    explain_at,
    read_story,
)
from shardclock_server.service import pauses
from shardclock_server.service.filters import moment_of
from shardclock_server.service.missed_count import MissedCount, missed_of
from shardclock_server.service.moves import destination_of, move, operator_destination
from shardclock_server.service.next_due import preview_of
from shardclock_server.service.single_change import ChangedTimer, UnknownTimer
from shardclock_server.service.timeline import Timeline, show_moment
from shardclock_server.sql.clients.firings import PastFiring, read_firings
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, resume_timer, run_timer
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.preview import PreviewedOccurrence
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.rule_words import describe_rule
from shardclock_server.timers.schedule import parse_schedule

PREVIEWED = 5
RECORDS_SHOWN = 30
PAYLOAD_CHARS_SHOWN = 4_000
PATHS = ("/timers/by-name/{name}", "/timers/{timer_key:key}")

router = page_router()


class MomentQuery(BaseModel):
    """The moment at which the page explains the timer's state."""

    model_config = ConfigDict(extra="forbid")

    at: str | None = None


async def timer_ref(request: Request, caller: Annotated[Caller, Depends(signed_in)]) -> TimerRef:
    """Read the timer's key or name from the path.

    errors:  UnknownTimer  no timer can have this key
    """
    name = request.path_params.get("name")
    if name is not None:
        return TimerRef(None, with_slashes(name), caller.tenant_id)
    which = TimerRef(request.path_params["timer_key"])
    if not 1 <= request.path_params["timer_key"] <= BIGINT_MAX:
        raise UnknownTimer(which)
    return which


Which = Annotated[TimerRef, Depends(timer_ref)]


def timer_url(request: Request, which: TimerRef) -> str:
    """Build the URL of a timer's page."""
    if which.name is not None:
        return url_of(request, "/timers/by-name/{}", which.name)
    return url_of(request, "/timers/{}", which.timer_key)


async def show_timer(request: Request, gateway: CurrentGateway, caller: Viewer, which: Which) -> Response:
    """Show a pending or ended timer, and explain the timer's state at a moment."""
    wanted, asked = _asked(filter_of(request, MomentQuery))
    async with gateway.pool.session(caller.tenants) as session:
        timer, timeline, moment = await read_story(gateway, session, which, caller, asked)
        firings = await _firings(session, timer)
    timeline = await add_authors(gateway, caller, timeline)
    plan, payload = timeline.plan, timer.payload or ""
    return page(
        request,
        caller,
        "timer.html",
        status=wanted.status,
        title=f"Timer {timer.name or timer.timer_key}",
        error=wanted.error,
        here_url=timer_url(request, which),
        timer=timer,
        given=wanted.given,
        moment_asked=moment,
        explained=await explain_at(gateway, caller, timeline, moment),
        plan=plan,
        key_names=timeline.key_names,
        is_job=timer.target.startswith(TARGET_OF_JOB),
        is_of_system=timer.target == SIGNAL or timer.target.startswith(TARGET_OF_JOB),
        records=_nearest(timeline.records, moment),
        delivery=timeline.delivery,
        strip=strip_of(firings),
        missed=await _missed(gateway, caller, timer, timeline),
        missed_choices=MISSED_CHOICES,
        payload=payload[:PAYLOAD_CHARS_SHOWN],
        payload_chars=len(payload),
        **_rule(timer, timeline),
    )


def _asked(wanted: Filter[MomentQuery]) -> tuple[Filter[MomentQuery], datetime | None]:
    """Read the moment at which to explain the timer's state; None (missing or invalid) means now."""
    try:
        return wanted, None if wanted.model.at is None else moment_of("at", wanted.model.at)
    except InvalidTimer as refusal:
        return wanted.refused(refusal), None


async def _firings(session: Session, timer: TimerState) -> Sequence[PastFiring]:
    """Read the last firings of a schedule with a name; other timers have no list of firings."""
    if timer.schedule is None or timer.name is None:
        return ()
    return (await read_firings(session, timer.tenant_id, [timer.name])).get(timer.name, ())


async def _missed(gateway: Gateway, caller: Caller, timer: TimerState, timeline: Timeline) -> MissedCount | None:
    """Count the occurrences that a paused schedule has missed; None: the timer is not a paused schedule."""
    if timer.state != "PAUSED" or timer.schedule is None or timeline.plan is None:
        return None
    work = partial(missed_of, timeline.plan, timeline.now)
    if timeline.now - timer.due_date > FAR:
        return await gateway.previews.run(caller.tenant_id, work)
    return work()


def _nearest(records: Sequence[LogRecord], moment: datetime) -> list[LogRecord]:
    """Return the records with times nearest to a moment, the newest first."""
    nearest = sorted(records, key=lambda record: abs(record.recorded_at - moment))[:RECORDS_SHOWN]
    return sorted(nearest, key=lambda record: record.position, reverse=True)


def _rule(timer: TimerState, timeline: Timeline) -> dict[str, Any]:
    """Describe a timer's rule, and list its next occurrences; for an invalid rule, return the refusal."""
    plan, schedule = timeline.plan, timer.schedule
    next_ones: list[PreviewedOccurrence] = []
    if schedule is None:
        return {"rule_words": None, "rule_refusal": None, "next_ones": next_ones}
    try:
        words = describe_rule(parse_schedule(schedule, timer.zone or "UTC"))
        if plan is not None and timer.state == "PENDING":
            next_ones = preview_of(plan, schedule, timeline.now, count=PREVIEWED)
    except InvalidTimer as refusal:
        return {"rule_words": None, "rule_refusal": str(refusal), "next_ones": []}
    return {"rule_words": words, "rule_refusal": None, "next_ones": next_ones}


async def move_timer(request: Request, gateway: CurrentGateway, caller: Changer, which: Which) -> Response:
    """Move a timer to a moment, by a delay from now, by a shift, or to another rule."""
    to = await form_of(request, RescheduleRequest)
    change = partial(move, to=destination_of(to.model_dump()))
    do = partial(change_found, gateway, caller, which, change, RESCHEDULED)
    return _done(request, which, await (do() if to.schedule is None else change_rule(gateway, caller, which, do)))


async def operate(request: Request, gateway: CurrentGateway, caller: Manager, which: Which) -> Response:
    """Pause, resume or reschedule a timer that belongs to a job or a process."""
    asked = await form_of(request, OperateRequest)
    to = operator_destination(asked.verb, asked.model_dump(exclude={"missed"}))
    change = partial(operate_own, caller=caller, verb=asked.verb, to=to, asked=asked.pause())
    return _done(request, which, await change_found(gateway, caller, which, change, OPERATED[asked.verb]))


def _verb(
    change_of: Callable[[str | None], Callable[[Session, TimerRef], Awaitable[str]]], outcomes: VerbOutcomes
) -> Callable[..., Awaitable[Response]]:
    """Create the handler of a form with one field, the reason; `change_of` takes the reason and returns the change."""

    async def change(request: Request, gateway: CurrentGateway, caller: Changer, which: Which) -> Response:
        form = await form_of(request, ReasonRequest)
        return _done(request, which, await change_found(gateway, caller, which, change_of(form.reason), outcomes))

    return change


async def pause(request: Request, gateway: CurrentGateway, caller: Changer, which: Which) -> Response:
    """Pause a timer, or change the end of its pause."""
    form = await form_of(request, PauseRequest)
    change = partial(pauses.pause, asked=form.pause())
    return _done(request, which, await change_found(gateway, caller, which, change, PAUSED))


async def resume(request: Request, gateway: CurrentGateway, caller: Changer, which: Which) -> Response:
    """Resume a paused timer, with a choice for the missed occurrences."""
    form = await form_of(request, ResumeRequest)
    change = partial(resume_timer, missed=form.missed)
    return _done(request, which, await change_found(gateway, caller, which, change, RESUMED))


VERBS = {
    "cancel": _verb(lambda reason: partial(cancel_timer, reason=reason), CANCELED),
    "pause": pause,
    "resume": resume,
    "run": _verb(lambda _: partial(run_timer, operation=secrets.token_hex(8)), RUN),
    "move": move_timer,
    "operate": operate,
}


def _done(request: Request, which: TimerRef, changed: ChangedTimer) -> Response:
    due = "" if changed.due_date is None else f", due {show_moment(changed.due_date)}"
    return done(request, timer_url(request, which), f"timer {which}: {changed.word}{due}")


for _path in PATHS:
    router.get(_path)(show_timer)
    for _name, _handler in VERBS.items():
        router.post(f"{_path}/{_name}")(_handler)
