"""Create one timer: the hot route, and a variant for a timer with a name.

`POST /v1/timers` is a plain function of Starlette, because a route of FastAPI takes twice the time.
"""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from shardclock.api.codes import REFUSED, invalid
from shardclock_server.gateway.access import caller_of
from shardclock_server.gateway.answers.log import RecordAnswer
from shardclock_server.gateway.answers.timers import ScheduledAnswer, WaitedAnswer
from shardclock_server.gateway.gateway import Gateway, gateway_of
from shardclock_server.gateway.reference.openapi import WAIT, answer_of, body_of
from shardclock_server.gateway.requests.bodies import TIMER, read_object
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import REPLAYED, request_of
from shardclock_server.gateway.requests.paths import refuse_unreadable_path
from shardclock_server.gateway.requests.problems import RETRY_AFTER_S, Problem
from shardclock_server.gateway.requests.queries import check_query
from shardclock_server.gateway.requests.wait import wait_s_of
from shardclock_server.gateway.waits.deferred import DeferredResponse
from shardclock_server.gateway.waits.timer_ends import TimerEnds
from shardclock_server.sql.clients.outcomes import Refused, Scheduled, Untried
from shardclock_server.sql.idempotency.requests import IdempotentRequest
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer, shortened

TIMERS = "/v1/timers"
WAITED = answer_of(ScheduledAnswer, WaitedAnswer)
CREATE = {
    "tags": ["timers"],
    "summary": "Create Timer",
    "description": "Schedule a timer; Postgres generates its key.",
    "operationId": "create_timer",
    "parameters": [WAIT],
    "responses": {
        "201": {**WAITED, "description": "It is stored."},
        "200": {
            **WAITED,
            "description": "The timer has replaced a pending timer with its name, or the existing timer is unchanged.",
        },
    },
    "security": [{"key": ["write"]}],
    **body_of(
        NewTimer,
        example={"delay": "PT15M", "name": "order-4711", "payload": {"order": 4711}},
    ),
}


async def create_timer(request: Request) -> Response:
    """Schedule a timer; Postgres generates its key."""
    gateway = gateway_of(request)
    caller = await caller_of(request)
    refuse_unreadable_path(request)
    check_query(request, {WAIT["name"]: False})
    caller.require("write")
    await gateway.quotas.take_write(caller.tenant_id)
    fields = await read_object(request, within_s=gateway.settings.gateway_body_s, such_as=TIMER)
    return await schedule(request, caller, timer_of(fields, caller), request_of(request, caller, fields))


async def schedule(request: Request, caller: Caller, timer: NewTimer, idempotent: IdempotentRequest | None) -> Response:
    """Write a timer, in a batch with concurrent timers, and answer with the outcome.

    With `wait` in the query, answer when the timer has ended or the time is over.

    errors:  Problem           the timer is refused, its name is taken, or a quota is exceeded
             StoreUnavailable  the outcome is unknown
    """
    gateway = gateway_of(request)
    if "if-match" in request.headers:
        raise Problem(REFUSED, "If-Match has no effect here: send it with PATCH, or with a verb of a timer")
    wait_s = wait_s_of(request.query_params.get("wait"))
    if wait_s is None:
        outcome = await write_timer(gateway, caller, timer, idempotent)
        return _answer(outcome, ScheduledAnswer.of(outcome))
    # Take the slot before the write, so that a caller without a slot schedules nothing.
    with await gateway.acquire_wait_slot(timer.tenant_id, gateway.wait_limits.ends) as slot:
        outcome = await write_timer(gateway, caller, timer, idempotent)
        return DeferredResponse(partial(_end_response, gateway.timer_ends, outcome, wait_s), slot.kept())


async def _end_response(ends: TimerEnds, outcome: Scheduled, wait_s: float, receive: Receive) -> Response:
    end = await ends.end_of(outcome.timer_key, receive, within_s=wait_s)
    scheduled = ScheduledAnswer.of(outcome).model_dump()
    return _answer(outcome, WaitedAnswer(**scheduled, end=RecordAnswer.of(end) if end else None))


async def write_timer(
    gateway: Gateway, caller: Caller, timer: NewTimer, idempotent: IdempotentRequest | None
) -> Scheduled:
    """Write a timer, in a batch with concurrent timers, and notify shards.

    errors:  as `schedule`
    """
    with await gateway.quotas.reservation(timer.tenant_id) as reservation:
        (reserved,) = await reservation.reserve([timer], [idempotent])
        if isinstance(reserved, Problem):
            raise reserved
        outcome = await gateway.combiner.schedule(caller.tenants, timer, idempotent)
        if reserved is not None:
            reserved.settle(outcome)
    if isinstance(outcome, Refused):
        raise problem_of(outcome)
    gateway.notify_shards([outcome.due_date])
    return outcome


def timer_of(fields: Mapping[str, object], caller: Caller) -> NewTimer:
    """Validate the fields of a timer after the JSON is parsed; the timer gets the caller's tenant.

    errors:  InvalidTimer  names the invalid field, the value, the rule and the correction
    """
    if (named := fields.get("tenant_id", caller.tenant_id)) != caller.tenant_id:
        raise InvalidTimer(
            f"tenant_id {shortened(named)} is not {shortened(caller.tenant_id)}, the tenant of this request: leave it"
            " out, or name the tenant in the header Shardclock-Tenant",
            code=invalid("tenant_id"),
        )
    return NewTimer.from_fields({**fields, "tenant_id": caller.tenant_id}, was_read=True)


def _answer(scheduled: Scheduled, body: ScheduledAnswer) -> Response:
    """Answer 201 for a new timer, and 200 if a timer with this name was replaced or is unchanged."""
    status = HTTPStatus.CREATED if scheduled.outcome == "created" else HTTPStatus.OK
    headers = {"Location": f"{TIMERS}/{scheduled.timer_key}"}
    if scheduled.replayed:
        headers[REPLAYED] = "true"
    return JSONResponse(body.model_dump(mode="json"), status, headers)


def problem_of(refused: Refused) -> Problem:
    """Create the problem for a timer that was not written."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(refused, Untried) else None
    return Problem(refused.code, refused.why, headers=headers)
