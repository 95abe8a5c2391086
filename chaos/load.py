"""Clients of timers: an open model. What the plan says is sent when it says so, whether or not answers have come."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chaos.clients import PAUSE_S, Clients
from chaos.history import Asked, Call
from chaos.plan import Change, Create, Plan, Wish
from shardclock_server.sql.clients.outcomes import Refused
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, reschedule_timer
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.model import NewTimer


class Load:
    """Do what a plan says to timers."""

    def __init__(self, clients: Clients, plan: Plan) -> None:
        self._clients = clients
        self._plan = plan
        self._made: dict[int, asyncio.Future[Asked]] = {}

    async def run(self) -> None:
        """Send everything at its time, and wait for the last answer."""
        begin = time.monotonic()
        for number, step in enumerate(self._plan.steps):
            if isinstance(step, Create):
                self._made[number] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as clients:
            for number, step in enumerate(self._plan.steps):
                await asyncio.sleep(begin + step.at_s - time.monotonic())
                clients.create_task(self._do(number, step), name=f"client {number}")

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
        first = await self._clients.until_known(call, send)
        if step.again_s is not None:
            await asyncio.sleep(step.again_s)
            await self._clients.until_known(replace(call, resends=first.resends), send)

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

        await self._clients.until_known(
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

    async def _draw(self, count: int) -> Drawn:
        while True:
            try:
                async with self._clients.session() as session:
                    return await draw_keys(session, count)
            except StoreUnavailable:
                await asyncio.sleep(PAUSE_S)


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
