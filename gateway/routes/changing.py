"""Change one of the caller's timers, once for each idempotency key, and only if its ETag matches `If-Match`."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock.api.changes import RESUMED, RUN, VerbOutcomes
from shardclock.api.refusals.timers import ETAG_DIFFERS
from shardclock_server.gateway.access import refuse_tenant_key
from shardclock_server.gateway.answers.timers import ChangedAnswer, TimerAnswer
from shardclock_server.gateway.gateway import Gateway, gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.idempotency import request_of, respond_once
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.shared_fields import find_own
from shardclock_server.service import pauses
from shardclock_server.service.pauses import Pause
from shardclock_server.service.single_change import ChangedTimer, change_one
from shardclock_server.sql.clients.history import TimerState, find_timer, lock_timer
from shardclock_server.sql.clients.verbs import Shift, TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration

ANY = "*"

T = TypeVar("T")


def etag_of(timer: TimerState) -> str:
    """Hash the fields of a timer that clients see; a shard's claim does not change the hash."""
    shown = TimerAnswer.of(timer).model_dump_json()
    return f'"{hashlib.sha256(shown.encode()).hexdigest()[:16]}"'


async def change_rule(gateway: Gateway, caller: Caller, which: TimerRef, change: Callable[[], Awaitable[T]]) -> T:
    """Change a timer's rule; if a plain timer becomes a schedule, reserve the tenant's quota of schedules.

    errors:  Problem           the quota of schedules would be exceeded
             StoreUnavailable  the tenant's schedules can't be counted now
    """
    async with gateway.pool.session(caller.tenants) as session:
        timer = await find_timer(session, which)
    if timer is None or timer.tenant_id != caller.tenant_id or timer.schedule is not None:
        return await change()
    with await gateway.quotas.reservation(caller.tenant_id) as reservation:
        await reservation.reserve_schedule()
        return await change()


async def change_own(
    request: Request,
    caller: Caller,
    which: TimerRef,
    change: Callable[[Session, TimerRef], Awaitable[str]],
    outcomes: VerbOutcomes,
    *,
    body: BaseModel | None = None,
) -> Response:
    """Change one of the caller's timers, once for each idempotency key, and only if its ETag matches `If-Match`."""
    idempotent = request_of(request, caller, body)
    expected = header_of(request.headers, "If-Match")
    due_dates: list[datetime | None] = []  # `do` fills this list; it stays empty if the request is a repetition

    async def do(session: Session) -> Response:
        meant = which
        if expected is not None:
            timer = await find_own(session, which, caller)
            await _require(session, timer, caller, expected)
            # use the key from now on, because another timer may get the name in the meantime
            meant = TimerRef(timer.timer_key)
        elif which.timer_key is not None:  # a key may belong to another tenant; a name is looked up within the tenant
            await find_own(session, which, caller)
        changed = await change_one(session, meant, change, outcomes)
        due_dates.extend(_due_of(changed, outcomes))
        key = meant.timer_key or await _key_of(session, which)
        answer = ChangedAnswer(timer_key=key, name=which.name, state=changed.state, due_date=changed.due_date)
        return JSONResponse(answer.model_dump(mode="json"))

    gateway = gateway_of(request)
    async with gateway.pool.session(caller.tenants, key_prefix=caller.author) as session:
        if expected is None:
            answer = await respond_once(session, idempotent, partial(do, session))
        else:
            async with session.transaction():
                answer = await respond_once(session, idempotent, partial(do, session))
    gateway.notify_shards(due_dates)
    return answer


async def _key_of(session: Session, changed: TimerRef) -> int | None:
    """Read the key of a changed timer by its name; None: the log no longer has the timer."""
    timer = await find_timer(session, changed)
    return None if timer is None else timer.timer_key


async def change_found(
    gateway: Gateway,
    caller: Caller,
    which: TimerRef,
    change: Callable[[Session, TimerRef], Awaitable[str]],
    outcomes: VerbOutcomes,
) -> ChangedTimer:
    """Change one of the caller's timers, and notify shards.

    errors:  as `service.single_change.change_one`
    """
    async with gateway.pool.session(caller.tenants, key_prefix=caller.author) as session:
        if which.timer_key is not None:  # a key may belong to another tenant; a name is looked up within the tenant
            await find_own(session, which, caller)
        changed = await change_one(session, which, change, outcomes)
    gateway.notify_shards(_due_of(changed, outcomes))
    return changed


async def operate_own(
    session: Session,
    which: TimerRef,
    *,
    caller: Caller,
    verb: str,
    to: datetime | Duration | Shift | None,
    asked: Pause,
) -> str:
    """Change a timer of a job or a process in the caller's tenant.

    errors:  Problem  the timer belongs to a job, but the API key is for one tenant; others as in `pauses.operate`
    """
    timer = await find_own(session, which, caller)
    refuse_tenant_key(caller, timer.target)
    return await pauses.operate(session, which, verb=verb, to=to, asked=asked)


def _due_of(changed: ChangedTimer, outcomes: VerbOutcomes) -> list[datetime | None]:
    """Return the due dates of which the shards are notified; None means now, after a run or a resume.

    shape:   empty: no notification
    """
    if outcomes in (RUN, RESUMED):
        return [None]
    return [] if changed.due_date is None else [changed.due_date]


async def _require(session: Session, timer: TimerState, caller: Caller, expected: str) -> None:
    """Lock a timer's row until the transaction ends, and refuse the change if the timer has another ETag."""
    if expected == ANY:
        return
    await lock_timer(session, timer.timer_key)
    found = etag_of(await find_own(session, TimerRef(timer.timer_key), caller))
    if found not in (tag.strip() for tag in expected.split(",")):
        raise Problem(
            ETAG_DIFFERS,
            ETAG_DIFFERS.sentence(timer_key=timer.timer_key, etag=found),
            headers={"ETag": found},
        )
