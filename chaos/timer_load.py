"""Send the planned calls about timers at their times, without waiting for earlier answers (an open model)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chaos.clients import PAUSE_S, Clients
from chaos.history.calls import Call, TimerRequest
from chaos.plan import ChangeTimer, CreateTimers, Plan, PlannedTimer
from shardclock_server.sql.clients.outcomes import Refused
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, pause_timer, reschedule_timer
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.model import NewTimer


class Load:
    """Sends the calls about timers in a plan."""

    def __init__(self, clients: Clients, plan: Plan) -> None:
        self._clients = clients
        self._plan = plan
        self._made: dict[int, asyncio.Future[TimerRequest]] = {}

    async def run(self) -> None:
        """Send each call at its time, and wait for the last answer."""
        begin = time.monotonic()
        for number, step in enumerate(self._plan.steps):
            if isinstance(step, CreateTimers):
                self._made[number] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as clients:
            for number, step in enumerate(self._plan.steps):
                await asyncio.sleep(begin + step.at_s - time.monotonic())
                clients.create_task(self._do(number, step), name=f"client {number}")

    async def _do(self, number: int, step: CreateTimers | ChangeTimer) -> None:
        if isinstance(step, CreateTimers):
            await self._create(number, step)
        else:
            await self._change(step, await self._made[step.of])

    async def _create(self, number: int, step: CreateTimers) -> None:
        drawn = await self._draw(len(step.timers))
        requests = [_request(key, planned) for key, planned in zip(drawn.keys, step.timers, strict=True)]
        timers = [_timer(it, step.tenant_id) for it in requests]
        self._made[number].set_result(requests[0])

        async def send(session: Session, call: Call) -> Call:
            outcomes = await schedule_timers(session, drawn, timers)
            refused = [key for key, said in zip(drawn.keys, outcomes, strict=True) if isinstance(said, Refused)]
            return replace(call, outcome="ok", refused=refused)

        call = Call(0, "schedule", step.tenant_id, 0.0, None, "unknown", timers=requests)
        first = await self._clients.until_known(call, send)
        if step.again_s is not None:
            await asyncio.sleep(step.again_s)
            await self._clients.until_known(replace(call, resends=first.resends), send)

    async def _change(self, step: ChangeTimer, of: TimerRequest) -> None:
        create = self._plan.steps[step.of]
        assert isinstance(create, CreateTimers)
        which = TimerRef(None, of.name, create.tenant_id) if step.by_name else TimerRef(of.timer_key)
        to = parse_duration(f"PT{step.due_in_s:.3f}S")
        until = datetime.now(UTC) + timedelta(seconds=step.due_in_s)

        async def send(session: Session, call: Call) -> Call:
            async with _open(session, step.open_s):
                if step.verb == "cancel":
                    answer = await cancel_timer(session, which, reason="chaos")
                elif step.verb == "pause":
                    answer = await pause_timer(session, which, until=until)
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
                delay_s=None if step.verb == "cancel" else step.due_in_s,
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
    """Run the block inside a transaction of the client that stays open for `open_s`; 0: use no transaction."""
    if not open_s:
        yield
        return
    async with session.transaction():
        yield
        await asyncio.sleep(open_s)


def _request(key: int, planned: PlannedTimer) -> TimerRequest:
    due_date = datetime.now(UTC) + timedelta(seconds=planned.due_in_s) if planned.as_moment else None
    return TimerRequest(
        key,
        name=planned.name,
        due_date=due_date,
        delay_s=None if planned.rule or due_date else round(planned.due_in_s, 3),
        rule=planned.rule,
        payload=json.dumps({"of": key} if planned.behaviour is None else {"of": key, "act": planned.behaviour.name}),
        target="log" if planned.behaviour is None else planned.behaviour.target,
    )


def _timer(request: TimerRequest, tenant_id: str) -> NewTimer:
    fields: dict[str, object] = {"tenant_id": tenant_id, "payload": json.loads(request.payload or "null")}
    if request.target != "log":
        fields["target"] = request.target
    if request.name is not None:
        fields["name"] = request.name
    if request.rule is not None:
        fields["schedule"] = request.rule
    elif request.due_date is not None:
        fields["due_date"] = request.due_date.isoformat()
    else:
        fields["delay"] = f"PT{request.delay_s:.3f}S"
    return NewTimer.from_fields(fields)
