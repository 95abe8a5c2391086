"""Clients: an open model. What the plan says is sent when it says so, whether or not earlier answers have come.

A client whose answer is lost does what the docs tell it: it sends the same again, under the same keys, until it knows.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sql.clients.pending import Drawn, Refused, draw_keys, schedule_timers
from sql.clients.verbs import TimerRef, cancel_timer, reschedule_timer
from sql.session import Session, StatementRefused, StoreUnavailable
from tests.chaos.history import Asked, Call
from tests.chaos.plan import Change, Create, Plan, Wish
from timers.duration import parse_duration
from timers.model import NewTimer
from timers.refusal import InvalidTimer

# For 250 calls a second, and to catch up after an outage: who falls behind cancels endless schedules late, and so has
# more and more to do. Postgres has 100 connections in all.
SESSIONS = 60
ANSWER_S = 5.0
PATIENCE_S = 100.0  # longer than any outage: a client that gives up would prove nothing
PAUSE_S = 0.3


class Load:
    """Do what a plan says to clients; `calls` is what they asked and were told."""

    def __init__(self, dsn: str, plan: Plan) -> None:
        self.calls: list[Call] = []
        self._plan = plan
        self._numbers = itertools.count(1)
        self._sessions: asyncio.Queue[Session] = asyncio.Queue()
        self._all = [Session(dsn, application="chaos client", timeout_s=ANSWER_S) for _ in range(SESSIONS)]
        for session in self._all:
            self._sessions.put_nowait(session)
        self._made: dict[int, asyncio.Future[Asked]] = {}

    async def run(self) -> None:
        """Send everything at its time, and wait for the last answer."""
        begin = time.monotonic()
        for number, step in enumerate(self._plan.steps):
            if isinstance(step, Create):
                self._made[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.TaskGroup() as clients:
                for number, step in enumerate(self._plan.steps):
                    await asyncio.sleep(begin + step.at_s - time.monotonic())
                    clients.create_task(self._do(number, step), name=f"client {number}")
        finally:
            await asyncio.gather(*(session.close() for session in self._all))

    async def _do(self, number: int, step: Create | Change) -> None:
        if isinstance(step, Create):
            await self._create(number, step)
        else:
            await self._change(step, await self._made[step.of])

    async def _create(self, number: int, step: Create) -> None:
        drawn = await self._draw(len(step.wishes))
        asked = [_asked(key, wish) for key, wish in zip(drawn.keys, step.wishes, strict=True)]
        timers = [_timer(it, step.tenant_id) for it in asked]
        self._made[number].set_result(asked[0])

        async def send(session: Session, call: Call) -> Call:
            outcomes = await schedule_timers(session, drawn, timers)
            refused = [key for key, said in zip(drawn.keys, outcomes, strict=True) if isinstance(said, Refused)]
            return replace(call, outcome="ok", refused=refused)

        call = Call(0, "schedule", step.tenant_id, 0.0, None, "unknown", timers=asked)
        first = await self._until_known(call, send)
        if step.again_s is not None:
            await asyncio.sleep(step.again_s)
            await self._until_known(replace(call, resends=first), send)

    async def _change(self, step: Change, of: Asked) -> None:
        create = self._plan.steps[step.of]
        assert isinstance(create, Create)
        which = TimerRef(None, of.name, create.tenant_id) if step.by_name else TimerRef(of.timer_key)
        to = parse_duration(f"PT{step.due_in_s:.3f}S")

        async def send(session: Session, call: Call) -> Call:
            async with _open(session, step.open_s):
                if step.verb == "cancel":
                    answer = await cancel_timer(session, which, reason="chaos")
                else:
                    answer = await reschedule_timer(session, which, to)
            return replace(call, outcome="ok", answer=answer)

        await self._until_known(
            Call(
                0,
                step.verb,
                create.tenant_id,
                0.0,
                None,
                "unknown",
                timer_key=which.timer_key,
                name=which.name,
                delay_s=step.due_in_s if step.verb == "reschedule" else None,
            ),
            send,
        )

    async def _until_known(self, call: Call, send: Callable[[Session, Call], Awaitable[Call]]) -> int:
        """Send until the outcome is known; the number of the first call comes back."""
        give_up_at = time.monotonic() + PATIENCE_S
        first = call.resends
        while True:
            call = replace(call, number=next(self._numbers), resends=first)
            done = await self._send(call, send)
            self.calls.append(done)
            first = first or done.number
            if done.outcome != "unknown" or time.monotonic() > give_up_at:
                return first
            await asyncio.sleep(PAUSE_S)

    async def _send(self, call: Call, send: Callable[[Session, Call], Awaitable[Call]]) -> Call:
        session = await self._sessions.get()
        call = replace(call, began_at=time.time())
        try:
            call = await send(session, call)
        except StoreUnavailable as error:
            call = replace(call, outcome="unknown", error=str(error))
        except (InvalidTimer, StatementRefused) as error:
            call = replace(call, outcome="fail", error=str(error))
        finally:
            self._sessions.put_nowait(session)
        return replace(call, ended_at=time.time())

    async def _draw(self, count: int) -> Drawn:
        while True:
            session = await self._sessions.get()
            try:
                return await draw_keys(session, count)
            except StoreUnavailable:
                await asyncio.sleep(PAUSE_S)
            finally:
                self._sessions.put_nowait(session)


@asynccontextmanager
async def _open(session: Session, open_s: float) -> AsyncIterator[None]:
    """Do something inside a client's own transaction, which stays open for a while, or in none."""
    if not open_s:
        yield
        return
    async with session.transaction():
        yield
        await asyncio.sleep(open_s)


def _asked(key: int, wish: Wish) -> Asked:
    due_date = datetime.now(UTC) + timedelta(seconds=wish.due_in_s) if wish.as_moment else None
    return Asked(
        key,
        name=wish.name,
        due_date=due_date,
        delay_s=None if wish.rule or due_date else round(wish.due_in_s, 3),
        rule=wish.rule,
        payload=json.dumps({"of": key} if wish.act is None else {"of": key, "act": wish.act.name}),
        target="log" if wish.act is None else wish.act.target,
    )


def _timer(asked: Asked, tenant_id: str) -> NewTimer:
    fields: dict[str, object] = {"tenant_id": tenant_id, "payload": json.loads(asked.payload or "null")}
    if asked.target != "log":
        fields["target"] = asked.target
    if asked.name is not None:
        fields["name"] = asked.name
    if asked.rule is not None:
        fields["schedule"] = asked.rule
    elif asked.due_date is not None:
        fields["due_date"] = asked.due_date.isoformat()
    else:
        fields["delay"] = f"PT{asked.delay_s:.3f}S"
    return NewTimer.from_fields(fields)
