"""Show and change timers, by key or by name.

A schedule's key changes with each firing, so requests address a schedule by its name.
"""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
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
from shardclock_server.gateway.access import AnyCaller, Manager, Reader, Writer
from shardclock_server.gateway.answers.log import RecordAnswer, RecordsAnswer
from shardclock_server.gateway.answers.timers import ChangedAnswer, ExplainedAnswer, TimerAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.reference.openapi import WAIT, body_of
from shardclock_server.gateway.requests.bodies import TIMER, read_object
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import request_of
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key, Name
from shardclock_server.gateway.requests.shared_fields import (
    CLOSED,
    PAID,
    PauseRequest,
    ReasonRequest,
    ResumeRequest,
    find_shown,
)
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.gateway.routes.changing import change_own, change_rule, etag_of, operate_own
from shardclock_server.gateway.routes.creating import TIMERS, WAITED, schedule, timer_of
from shardclock_server.gateway.waits.deferred import DeferredResponse
from shardclock_server.gateway.waits.timer_ends import TimerEnds, find_end
from shardclock_server.service import pauses
from shardclock_server.service.authors import with_authors
from shardclock_server.service.explain import Explanation, explain
from shardclock_server.service.filters import moment_of
from shardclock_server.service.moves import destination_of, move, operator_destination
from shardclock_server.service.timeline import Timeline, read_timeline
from shardclock_server.sql.clients.history import TimerState, records_of
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, resume_timer, run_timer
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer

RECORDS_MAX = 100
FAR = timedelta(days=366)  # counting the occurrences of a longer span takes up to 0.1 s, so it needs a thread

router = APIRouter(prefix=TIMERS, tags=["timers"])


class RescheduleRequest(BaseModel):
    """The new date or rule of a timer: exactly one of the first four fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    due_date: str | None = Field(None, examples=["2027-01-31T08:00:00Z"], description="a moment")
    delay: str | None = Field(None, examples=["PT15M"], description="an ISO 8601 duration from now")
    shift: str | None = Field(
        None, examples=["-P1D"], description="an ISO 8601 duration from the present due date, with a sign or without"
    )
    schedule: str | None = Field(None, examples=["0 8 * * MON"], description="another rule, an ISO 8601 repeat or cron")
    zone: str | None = Field(
        None, examples=["Europe/Berlin"], description="the time zone of a local due date or of a rule"
    )
    missed: str | None = Field(
        None,
        examples=["skip"],
        description="the missed-run policy of a rule; without this field, the policy is unchanged",
    )


class OperateRequest(PauseRequest):
    """An operator's change of a timer that belongs to a job or a process."""

    verb: str = Field(examples=["pause"], description=f"one of {', '.join(OPERATED)}")
    due_date: str | None = Field(None, examples=["2027-01-31T08:00:00Z"], description="for reschedule: a moment")
    delay: str | None = Field(None, examples=["PT15M"], description="for reschedule: an ISO 8601 duration from now")
    shift: str | None = Field(
        None, examples=["-P1D"], description="for reschedule: an ISO 8601 duration from the present due date"
    )
    zone: str | None = Field(None, examples=["Europe/Berlin"], description="the time zone of a local due date")


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
async def put_timer(name: Name, request: Request, gateway: CurrentGateway, caller: Writer) -> Response:
    """Create the timer with a name, or replace it."""
    fields = await read_object(request, within_s=gateway.settings.gateway_body_s, such_as=TIMER)
    for field in ("name", "on_conflict"):
        if field in fields:
            raise InvalidTimer(f"{field} is not a field here: the path names the replaced timer; leave it out")
    timer = timer_of({**fields, "name": name, "on_conflict": "replace"}, caller)
    return await schedule(request, caller, timer, request_of(request, caller, fields))


def by_key(timer_key: Key) -> TimerRef:
    """Address a timer by its key."""
    return TimerRef(timer_key)


def by_name(name: Name, caller: AnyCaller) -> TimerRef:
    """Address a timer by its name."""
    return TimerRef(None, name, caller.tenant_id)


def _add_reads(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add the routes that show one timer, addressed by key or by name."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.get(path, operation_id=f"get_timer{suffix}")
    async def get_timer(which: which_is, gateway: CurrentGateway, caller: Reader, response: Response) -> TimerAnswer:
        """Show a timer, pending or ended."""
        async with gateway.pool.session(caller.tenants) as session:
            timer = await find_shown(session, which, caller)
        response.headers["ETag"] = etag_of(timer)
        return TimerAnswer.of(timer)

    @router.get(f"{path}/records", operation_id=f"get_records{suffix}", response_model=RecordsAnswer)
    async def get_records(
        which: which_is,
        gateway: CurrentGateway,
        caller: Reader,
        limit: Annotated[int, Query(ge=1, le=RECORDS_MAX)] = 20,
    ) -> Response:
        """List the records of a timer, the newest first."""
        async with gateway.pool.session(caller.tenants) as session:
            await find_shown(session, which, caller)
            records = await records_of(session, which, limit=limit)
        return await listing(RecordsAnswer, "records", map(RecordAnswer.of, records))

    @router.get(f"{path}/explanation", operation_id=f"explain_timer{suffix}")
    async def explain_timer(
        which: which_is,
        gateway: CurrentGateway,
        caller: Reader,
        at: Annotated[
            str | None, Query(description="the moment at which to explain the state of the timer; without it, now")
        ] = None,
    ) -> ExplainedAnswer:
        """Explain a timer's state at a moment: why the timer fired, or did not fire."""
        asked = None if at is None else moment_of("at", at)
        async with gateway.pool.session(caller.tenants) as session:
            _, timeline, moment = await read_story(gateway, session, which, caller, asked)
        timeline = await add_authors(gateway, caller, timeline)
        answer = await explain_at(gateway, caller, timeline, moment)
        records = [RecordAnswer.of(record) for record in timeline.records]
        return ExplainedAnswer(moment=moment, verdict=answer.verdict, why=answer.why, records=records)


async def read_story(
    gateway: Gateway, session: Session, which: TimerRef, caller: Caller, asked: datetime | None
) -> tuple[TimerState, Timeline, datetime]:
    """Read a timer that the caller may see, and its records around a moment (by default now).

    errors:  UnknownTimer      there is no such timer, or the caller may not see it
             StoreUnavailable  Postgres did not answer within the timeout
    """
    settings = gateway.settings
    timer = await find_shown(session, which, caller)
    now = await read_clock(session)
    moment = asked or now
    identity, silent_s = settings.identity, settings.silent_s
    timeline = await read_timeline(session, which, moment, now, identity=identity, silent_s=silent_s)
    return timer, timeline if caller.is_operator else timeline.without_reasons(), moment


async def add_authors(gateway: Gateway, caller: Caller, timeline: Timeline) -> Timeline:
    """Add the names of the API keys that the caller may see; for an operator, also add the authors of holds.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    if caller.is_operator:
        async with gateway.pool.session(ALL_TENANTS) as session:
            return await with_authors(session, timeline, tenant_id=None)
    async with gateway.pool.session(caller.tenants) as session:
        return await with_authors(session, timeline, tenant_id=caller.tenant_id)


async def explain_at(gateway: Gateway, caller: Caller, timeline: Timeline, moment: datetime) -> Explanation:
    """Explain a timer's state at a moment; use a thread if the occurrences of several years must be counted.

    errors:  Problem  too many computations wait already
    """
    if moment - timeline.now > FAR:
        return await gateway.previews.run(caller.tenant_id, explain, timeline, moment)
    return explain(timeline, moment)


def _add_end(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add the route that waits for the end of one timer, addressed by key or by name."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.get(
        f"{path}/end",
        operation_id=f"get_end{suffix}",
        response_model=RecordAnswer,
        responses={204: {"description": "The timer has not ended: ask again."}},
    )
    async def get_end(which: which_is, gateway: CurrentGateway, caller: Reader, wait: WaitForEnd = None) -> Response:
        """Wait until a timer, or the delivery of a timer with a target, has ended; show the record of the end."""
        wait_s = wait_s_of(wait) or 0.0
        async with gateway.pool.session(caller.tenants) as session:
            key = (await find_shown(session, which, caller)).timer_key
            end = await find_end(session, key)
        if end is not None or not wait_s:
            return _end_of(end)
        with await gateway.acquire_wait_slot(caller.tenant_id, gateway.wait_limits.ends) as slot:
            return DeferredResponse(partial(_end_response, gateway.timer_ends, key, wait_s), slot.kept())


async def _end_response(ends: TimerEnds, timer_key: int, wait_s: float, receive: Receive) -> Response:
    return _end_of(await ends.end_of(timer_key, receive, within_s=wait_s))


def _end_of(end: LogRecord | None) -> Response:
    if end is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return JSONResponse(RecordAnswer.of(end).model_dump(mode="json"))


def _add_changes(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add the routes that change one timer, addressed by key or by name."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.patch(
        path,
        operation_id=f"move_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(RescheduleRequest, example={"shift": "PT1H"}),
    )
    async def move_timer(which: which_is, request: Request, gateway: CurrentGateway, caller: Writer) -> Response:
        """Move a timer to a moment, by a delay from now, by a shift, or to another rule.

        With `If-Match`, the timer is moved only if it still has this `ETag`.
        """
        to = await read_model(request, RescheduleRequest)
        change = partial(move, to=destination_of(to.model_dump()))
        changed = partial(change_own, request, caller, which, change, RESCHEDULED, body=to)
        return await (changed() if to.schedule is None else change_rule(gateway, caller, which, changed))

    @router.post(
        f"{path}/cancel",
        operation_id=f"cancel_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(ReasonRequest, is_needed=False, example=PAID),
    )
    async def cancel(which: which_is, request: Request, caller: Writer) -> Response:
        """Cancel a pending timer; if the timer has ended, the problem's `state` is the timer's state."""
        why = await read_model(request, ReasonRequest)
        change = partial(cancel_timer, reason=why.reason)
        return await change_own(request, caller, which, change, CANCELED, body=why)

    @router.post(
        f"{path}/pause",
        operation_id=f"pause_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(PauseRequest, is_needed=False, example=CLOSED),
    )
    async def pause(which: which_is, request: Request, caller: Writer) -> Response:
        """Pause a timer until a resume or until a moment, or change the end of a pause."""
        asked = await read_model(request, PauseRequest)
        change = partial(pauses.pause, asked=asked.pause())
        return await change_own(request, caller, which, change, PAUSED, body=asked)


def _add_operate(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add the route for an operator's change of a job's or a process's timer, addressed by key or by name."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.post(
        f"{path}/operate",
        operation_id=f"change_system_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(OperateRequest, example={"verb": "pause", "reason": "month-end close"}),
    )
    async def operate(which: which_is, request: Request, caller: Manager) -> Response:
        """Pause, resume or reschedule a timer of a job or a process.

        For a job's timer the caller needs an API key for all tenants.
        """
        asked = await read_model(request, OperateRequest)
        to = operator_destination(asked.verb, asked.model_dump(exclude={"missed"}))
        change = partial(operate_own, caller=caller, verb=asked.verb, to=to, asked=asked.pause())
        return await change_own(request, caller, which, change, OPERATED[asked.verb], body=asked)


def _add_resume_and_run(path: str, which_of: Callable[..., TimerRef], suffix: str) -> None:
    """Add the routes that resume one timer or make it due now, addressed by key or by name."""
    which_is = Annotated[TimerRef, Depends(which_of)]

    @router.post(
        f"{path}/resume",
        operation_id=f"resume_timer{suffix}",
        response_model=ChangedAnswer,
        openapi_extra=body_of(ResumeRequest, is_needed=False, example={"missed": "skip"}),
    )
    async def resume(which: which_is, request: Request, caller: Writer) -> Response:
        """Resume a paused timer; a timer that became due during the pause is due immediately."""
        asked = await read_model(request, ResumeRequest)
        change = partial(resume_timer, missed=asked.missed)
        return await change_own(request, caller, which, change, RESUMED, body=asked)

    @router.post(f"{path}/run", operation_id=f"run_timer{suffix}", response_model=ChangedAnswer)
    async def run(which: which_is, request: Request, caller: Writer) -> Response:
        """Make a pending timer due now; a schedule fires once in addition to its dates."""
        once_more = partial(run_timer, operation=secrets.token_hex(8))
        return await change_own(request, caller, which, once_more, RUN)


for _path, _which_of, _suffix in (("/by-name/{name}", by_name, "_by_name"), ("/{timer_key:key}", by_key, "")):
    _add_reads(_path, _which_of, _suffix)
    _add_end(_path, _which_of, _suffix)
    _add_changes(_path, _which_of, _suffix)
    _add_operate(_path, _which_of, _suffix)
    _add_resume_and_run(_path, _which_of, _suffix)
