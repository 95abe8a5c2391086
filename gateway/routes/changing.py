"""Change one timer of the caller's, once for each idempotency key, and only if it is as the caller has read it."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock.api.changes import RESUMED, RUN, Outcomes
from shardclock_server.gateway.answers.timers import ChangedAnswer, TimerAnswer
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.asked import find_own
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.idempotency import once, request_of
from shardclock_server.gateway.requests.problems import STALE, Problem
from shardclock_server.service.single_change import Changed, change_one
from shardclock_server.sql.clients.history import TimerState, find_timer, lock_timer
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session

ANY = "*"


def etag_of(timer: TimerState) -> str:
    """Tell this state of a timer from others of it; being claimed by a shard does not change it."""
    shown = TimerAnswer.of(timer).model_dump_json()
    return f'"{hashlib.sha256(shown.encode()).hexdigest()[:16]}"'


async def change_rule(
    request: Request, caller: Caller, which: TimerRef, change: Callable[[], Awaitable[Response]]
) -> Response:
    """Give a timer another rule; a plain timer becomes a schedule, if its tenant may have one more.

    errors:  Problem           it has as many as it may have
             StoreUnavailable  the tenant's schedules can't be counted now
    """
    gateway = gateway_of(request)
    async with gateway.pool.session(caller.tenants) as session:
        timer = await find_timer(session, which)
    if timer is None or timer.tenant_id != caller.tenant_id or timer.schedule is not None:
        return await change()
    with await gateway.quotas.room(caller.tenant_id) as room:
        await room.take_schedule()
        return await change()


async def change_own(
    request: Request,
    caller: Caller,
    which: TimerRef,
    change: Callable[[Session, TimerRef], Awaitable[str]],
    outcomes: Outcomes,
    *,
    body: BaseModel | None = None,
) -> Response:
    """Change a timer of the caller's, once for each idempotency key, and only if it matches `If-Match`."""
    idempotent = request_of(request, caller, body)
    expected = header_of(request.headers, "If-Match")
    due_dates: list[datetime | None] = []  # none if the same request was answered before

    async def do(session: Session) -> Response:
        meant = which
        if expected is not None:
            timer = await find_own(session, which, caller)
            await _require(session, timer, caller, expected)
            meant = TimerRef(timer.timer_key)  # that one, and none that gets its name meanwhile
        elif which.timer_key is not None:  # a name is looked up among the caller's own
            await find_own(session, which, caller)
        changed = await change_one(session, meant, change, outcomes)
        due_dates.extend(_due_of(changed, outcomes))
        answer = ChangedAnswer(
            timer_key=which.timer_key, name=which.name, state=changed.state, due_date=changed.due_date
        )
        return JSONResponse(answer.model_dump(mode="json"))

    gateway = gateway_of(request)
    async with gateway.pool.session(caller.tenants) as session:
        if expected is None:
            answer = await once(session, idempotent, partial(do, session))
        else:
            async with session.transaction():
                answer = await once(session, idempotent, partial(do, session))
    gateway.tell_shards(due_dates)
    return answer


def _due_of(changed: Changed, outcomes: Outcomes) -> list[datetime | None]:
    """Return when a changed timer is due, None for now: if it was told to run, and perhaps if it was resumed."""
    if outcomes in (RUN, RESUMED):
        return [None]
    return [] if changed.due_date is None else [changed.due_date]


async def _require(session: Session, timer: TimerState, caller: Caller, expected: str) -> None:
    """Hold a timer's row until the transaction ends, and refuse if it is not as the caller has read it."""
    if expected == ANY:
        return
    await lock_timer(session, timer.timer_key)
    found = etag_of(await find_own(session, TimerRef(timer.timer_key), caller))
    if found not in (tag.strip() for tag in expected.split(",")):
        raise Problem(
            STALE,
            f"timer {timer.timer_key} is not as you have read it: it has the ETag {found} now; read it again",
            headers={"ETag": found},
        )
