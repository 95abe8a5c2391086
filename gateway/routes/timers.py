"""Look at timers, and change one: by its key, or by its name.

A schedule has another key after each firing, so it is addressed by its name.
"""

import secrets
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from shardclock.api.changes import CANCELED, OPERATED, PAUSED, RESCHEDULED, RESUMED, RUN
from shardclock.log import LogRecord
from shardclock_server.gateway.access import Asking, Manager, Reader, Writer, require_overseer
from shardclock_server.gateway.answers.log import RecordAnswer, RecordsAnswer
from shardclock_server.gateway.answers.timers import ChangedAnswer, ExplainedAnswer, TimerAnswer, TimersAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import WAIT, body_of
from shardclock_server.gateway.requests.asked import PAID, ReasonRequest, TimersFilter, find_own, find_shown
from shardclock_server.gateway.requests.bodies import TIMER, read_object
from shardclock_server.gateway.requests.idempotency import request_of
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key, Name
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.gateway.routes.changing import change_own, change_rule, etag_of
from shardclock_server.gateway.routes.creating import TIMERS, WAITED, schedule, timer_of
from shardclock_server.gateway.waits.later import Later
from shardclock_server.gateway.waits.timer_ends import TimerEnds, find_end
from shardclock_server.service.explain import explain
from shardclock_server.service.filters import moment_of
from shardclock_server.service.moves import destination_of, move, operated_to
from shardclock_server.service.story import gather
from shardclock_server.sql.clients.history import find_timers, records_of
from shardclock_server.sql.clients.verbs import (
    TimerRef,
    cancel_timer,
    operate_timer,
    pause_timer,
    resume_timer,
    run_timer,
)
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer, shortened

STATES = ("pending", "paused", "triggered", "canceled", "skipped", "ended")
RECORDS_MAX = 100
FAR = timedelta(days=366)  # to count occurrences beyond it takes up to 0.1 s of the processor
SEARCH_S = 1.0  # for one page of ended timers
PAGE_BYTES = 4 * 2**20  # of payloads, in one page, but for the last one of them

router = APIRouter(prefix=TIMERS, tags=["timers"])


class RescheduleRequest(BaseModel):
    """Where a timer is moved to: exactly one of the first four."""

    model_config = ConfigDict(extra="forbid", strict=True)

    due_date: str | None = Field(None, examples=["2027-01-31T08:00:00Z"], description="a moment")
    delay: str | None = Field(None, examples=["PT15M"], description="from now, an ISO 8601 duration")
    shift: str | None = Field(None, examples=["-P1D"], description="from its own due date, with a sign or without")
    schedule: str | None = Field(None, examples=["0 8 * * MON"], description="another rule, an ISO 8601 repeat or cron")
    zone: str | None = Field(None, examples=["Europe/Berlin"], description="beside a local due date or a rule")
    missed: str | None = Field(None, examples=["skip"], description="beside a rule; if not given, as before")


class OperateRequest(BaseModel):
    """How an operator changes a timer of a job or a process."""

    model_config = ConfigDict(extra="forbid", strict=True)

    verb: str = Field(examples=["pause"], description=f"one of {', '.join(OPERATED)}")
    due_date: str | None = Field(None, examples=["2027-01-31T08:00:00Z"], description="of reschedule: a moment")
    delay: str | None = Field(None, examples=["PT15M"], description="of reschedule: from now, an ISO 8601 duration")
    shift: str | None = Field(None, examples=["-P1D"], description="of reschedule: from its own due date")
    zone: str | None = Field(None, examples=["Europe/Berlin"], description="beside a local due date")
    reason: str | None = Field(None, max_length=1_000, description="of pause: kept in the record")


class TimersQuery(TimersFilter):
    """Which timers are listed; what is not given leaves none out."""

    state: str = Field("pending", description=f"one of {', '.join(STATES)}, in upper or lower case")
    name: str | None = Field(None, description="only timers of this name")
    limit: int = Field(100, ge=1, le=1_000)
    after: str | None = Field(None, description="the last answer's `next`")


@router.get("", response_model=TimersAnswer)
async def list_timers(gateway: Here, caller: Reader, wanted: Annotated[TimersQuery, Query()]) -> Response:
    """List pending timers, soonest first, or paused ones, or ended ones, newest first.

    A page with 4 MiB of payloads is short. Ended timers are found in the log: if that takes long, a page may be empty.
    Neither is the last one: ask with `next`.
    """
    state = wanted.state
    if state.lower() not in STATES:
        raise InvalidTimer(f"state {shortened(state)} is unknown: use {', '.join(STATES[:-1])} or {STATES[-1]}")
    async with gateway.pool.session(caller.tenants) as session:
        page = await find_timers(
            session,
            state.upper(),
            wanted.filter_of(caller),
            name=wanted.name,
            size=wanted.limit,
            page=wanted.after,
            within_s=SEARCH_S,
            payload_bytes=PAGE_BYTES,
        )
    shown = (timer for timer in page.timers if caller.sees(timer.tenant_id, timer.target))
    return await listing(TimersAnswer, "timers", map(TimerAnswer.of, shown), next=page.next)


@router.put(
    "/by-name/{name}",
    response_model=None,
    responses={200: WAITED, 201: WAITED},
    openapi_extra={
        "parameters": [WAIT],
        **body_of(
            NewTimer,
            but=("name", "on_conflict"),
            example={"schedule": "0 8 * * MON", "zone": "Europe/Berlin"},
        ),
    },
)
async def put_timer(name: Name, request: Request, gateway: Here, caller: Writer) -> Response:
    """Make the timer of a name, or replace it."""
    fields = await read_object(request, within_s=gateway.settings.gateway_body_s, such_as=TIMER)
    for field in ("name", "on_conflict"):
        if field in fields:
            raise InvalidTimer(f"{field} is not a field here: the path names the timer that is replaced; leave it out")
    timer = timer_of({**fields, "name": name, "on_conflict": "replace"}, caller)
    return await schedule(request, caller, timer, request_of(request, caller, fields))


def by_key(timer_key: Key) -> TimerRef:
    """Name a timer by its key."""
    return TimerRef(timer_key)


def by_name(name: Name, caller: Asking) -> TimerRef:
    """Name a timer by its name."""
    return TimerRef(None, name, caller.tenant_id)


def _add_looks(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add how to look at one timer, addressed in one way."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.get(path, operation_id=f"get_timer{suffix}")
    async def get_timer(which: which_is, gateway: Here, caller: Reader, response: Response) -> TimerAnswer:
        """Show a timer, pending or ended."""
        async with gateway.pool.session(caller.tenants) as session:
            timer = await find_shown(session, which, caller)
        response.headers["ETag"] = etag_of(timer)
        return TimerAnswer.of(timer)

    @router.get(f"{path}/records", operation_id=f"get_records{suffix}", response_model=RecordsAnswer)
    async def get_records(
        which: which_is, gateway: Here, caller: Reader, limit: Annotated[int, Query(ge=1, le=RECORDS_MAX)] = 20
    ) -> Response:
        """Show what happened to a timer, the newest first."""
        async with gateway.pool.session(caller.tenants) as session:
            await find_shown(session, which, caller)
            records = await records_of(session, which, limit=limit)
        return await listing(RecordsAnswer, "records", map(RecordAnswer.of, records))

    @router.get(f"{path}/explanation", operation_id=f"explain_timer{suffix}")
    async def explain_timer(
        which: which_is,
        gateway: Here,
        caller: Reader,
        at: Annotated[str | None, Query(description="about this moment; if not given, about now")] = None,
    ) -> ExplainedAnswer:
        """Say why a timer fired when it did, or why it did not."""
        settings = gateway.settings
        asked = None if at is None else moment_of("at", at)
        async with gateway.pool.session(caller.tenants) as session:
            await find_shown(session, which, caller)
            now = await read_clock(session)
            moment = asked or now
            story = await gather(session, which, moment, now, identity=settings.identity, silent_s=settings.silent_s)
        if moment - now > FAR:
            answer = await gateway.previews.run(caller.tenant_id, explain, story, moment)
        else:
            answer = explain(story, moment)
        records = [RecordAnswer.of(record) for record in story.records]
        return ExplainedAnswer(moment=moment, verdict=answer.verdict, why=answer.why, records=records)


def _add_end(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add how to wait for the end of one timer, addressed in one way."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.get(
        f"{path}/end",
        operation_id=f"get_end{suffix}",
        response_model=RecordAnswer,
        responses={204: {"description": "It has not ended yet: ask again."}},
    )
    async def get_end(which: which_is, gateway: Here, caller: Reader, wait: WaitForEnd = None) -> Response:
        """Wait until a timer has ended, and show the record that ended it: of one with a target, its delivery's end."""
        wait_s = wait_s_of(wait) or 0.0
        async with gateway.pool.session(caller.tenants) as session:
            key = (await find_shown(session, which, caller)).timer_key
            end = await find_end(session, key)
        if end is not None or not wait_s:
            return _end_of(end)
        with await gateway.take_place(caller.tenant_id, gateway.wait_places) as place:
            return Later(partial(_end_later, gateway.timer_ends, key, wait_s), place.kept())


async def _end_later(ends: TimerEnds, timer_key: int, wait_s: float, receive: Receive) -> Response:
    return _end_of(await ends.end_of(timer_key, receive, within_s=wait_s))


def _end_of(end: LogRecord | None) -> Response:
    if end is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return JSONResponse(RecordAnswer.of(end).model_dump(mode="json"))


def _add_changes(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add how to change one timer, addressed in one way."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.patch(
        path,
        operation_id=f"move_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(RescheduleRequest, example={"shift": "PT1H"}),
    )
    async def move_timer(which: which_is, request: Request, caller: Writer) -> Response:
        """Move a timer to a moment, by a delay from now, by a shift, or to another rule.

        With `If-Match`, only if it is as it was when its `ETag` was read.
        """
        to = await read_model(request, RescheduleRequest)
        change = partial(move, to=destination_of(to.model_dump()))
        changed = partial(change_own, request, caller, which, change, RESCHEDULED, body=to)
        return await (changed() if to.schedule is None else change_rule(request, caller, which, changed))

    @router.post(
        f"{path}/cancel",
        operation_id=f"cancel_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(ReasonRequest, is_needed=False, example=PAID),
    )
    async def cancel(which: which_is, request: Request, caller: Writer) -> Response:
        """Cancel a pending timer; if it has fired already, say so."""
        why = await read_model(request, ReasonRequest)
        change = partial(cancel_timer, reason=why.reason)
        return await change_own(request, caller, which, change, CANCELED, body=why)

    @router.post(
        f"{path}/pause",
        operation_id=f"pause_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(ReasonRequest, is_needed=False, example=PAID),
    )
    async def pause(which: which_is, request: Request, caller: Writer) -> Response:
        """Keep a pending timer from firing until it is resumed."""
        why = await read_model(request, ReasonRequest)
        change = partial(pause_timer, reason=why.reason)
        return await change_own(request, caller, which, change, PAUSED, body=why)


def _add_operate(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add the operator's change of one timer of a job or a process, addressed in one way."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.post(
        f"{path}/operate",
        operation_id=f"operate_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(OperateRequest, example={"verb": "pause", "reason": "month-end close"}),
    )
    async def operate(which: which_is, request: Request, caller: Manager) -> Response:
        """Pause, resume or reschedule a timer of a job or a process. One of a job needs a key for all tenants."""
        asked = await read_model(request, OperateRequest)
        to = operated_to(asked.verb, asked.model_dump())

        async def change(session: Session, which: TimerRef) -> str:
            timer = await find_own(session, which, caller)
            require_overseer(caller, timer.target)
            return await operate_timer(session, which, verb=asked.verb, to=to, reason=asked.reason)

        return await change_own(request, caller, which, change, OPERATED[asked.verb], body=asked)


def _add_returns(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add how to let one timer fire again, or now, addressed in one way."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.post(f"{path}/resume", operation_id=f"resume_timer{suffix}", response_model=ChangedAnswer)
    async def resume(which: which_is, request: Request, caller: Writer) -> Response:
        """Resume a paused timer; one that fell due meanwhile is due at once."""
        return await change_own(request, caller, which, resume_timer, RESUMED)

    @router.post(f"{path}/run", operation_id=f"run_timer{suffix}", response_model=ChangedAnswer)
    async def run(which: which_is, request: Request, caller: Writer) -> Response:
        """Make a pending timer due now; a schedule runs once more, and keeps its dates."""
        once_more = partial(run_timer, operation=secrets.token_hex(8))
        return await change_own(request, caller, which, once_more, RUN)


for _path, _which_of, _suffix in (("/by-name/{name}", by_name, "_by_name"), ("/{timer_key:key}", by_key, "")):
    _add_looks(_path, _which_of, _suffix)
    _add_end(_path, _which_of, _suffix)
    _add_changes(_path, _which_of, _suffix)
    _add_operate(_path, _which_of, _suffix)
    _add_returns(_path, _which_of, _suffix)
