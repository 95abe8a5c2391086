"""Clients of processes: they start instances, complete tasks, publish messages and cancel, as the plan says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from chaos.clients import PATIENCE_S, PAUSE_S, Clients, Send
from chaos.history import Call
from chaos.models import MESSAGE, PROCESSES
from chaos.process_plan import TENANTS, Begin
from shardclock_server.service.processes import deploy
from shardclock_server.sql.processes.instances import cancel_instance, find_instance, publish_message, start_process
from shardclock_server.sql.processes.tasks import complete_task, find_tasks
from shardclock_server.sql.session import Session, StoreUnavailable

LOOK_S = 0.1  # between two looks at the list of tasks
PAGE = 1_000
KEPT_S = 3_600.0  # a message that comes before anybody waits for it must still be there
ASKS_S = 2.0  # without its task for so long, a client asks whether the instance has ended


async def deploy_all(dsn: str) -> None:
    """Deploy every model for each tenant."""
    async with Session(dsn, application="chaos") as session:
        for tenant_id in TENANTS:
            for process in PROCESSES.values():
                resource = f"{process.process_id}.bpmn"
                await deploy(session, process.model, resource=resource, tenant_id=tenant_id)


class ProcessLoad:
    """Start the instances of a plan, and drive them."""

    def __init__(self, clients: Clients, begins: Sequence[Begin]) -> None:
        self._clients = clients
        self._begins = begins
        self._tasks: dict[int, int] = {}  # that the list has ever shown, by instance

    async def run(self) -> None:
        """Start each at its time, and wait until all is done for the last one."""
        if not self._begins:
            return
        begin_s = time.monotonic()
        looking = asyncio.create_task(self._look())
        try:
            async with asyncio.TaskGroup() as clients:
                for it in self._begins:
                    await asyncio.sleep(begin_s + it.at_s - time.monotonic())
                    clients.create_task(self._drive(it), name=f"{it.process_id} {it.key}")
        finally:
            looking.cancel()

    async def _drive(self, begin: Begin) -> None:
        started = await self._clients.until_known(self._call(begin, "start"), _starts(begin))
        key = started.instance_key
        if key is None:
            return
        async with asyncio.TaskGroup() as work:
            if begin.drive_s is not None:
                work.create_task(self._do(begin, key, begin.drive_s))
            if begin.stop_s is not None:
                work.create_task(self._stop(begin, key, begin.stop_s))
            if begin.again_s is not None:
                work.create_task(self._start_again(begin, begin.again_s, first=started.resends))

    async def _start_again(self, begin: Begin, after_s: float, *, first: int | None) -> None:
        await asyncio.sleep(after_s)
        await self._clients.until_known(self._call(begin, "start", resends=first), _starts(begin))

    async def _do(self, begin: Begin, key: int, after_s: float) -> None:
        """Do what the instance waits for."""
        await asyncio.sleep(after_s)
        if PROCESSES[begin.process_id].message:
            await self._clients.until_known(self._call(begin, "publish", instance_key=key), _publishes(begin, key))
        elif task_key := await self._task_of(begin, key):
            call = self._call(begin, "complete", instance_key=key, task_key=task_key)
            await self._clients.until_known(call, _completes(begin, task_key))

    async def _stop(self, begin: Begin, key: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._clients.until_known(self._call(begin, "stop", instance_key=key), _stops(begin, key))

    async def _task_of(self, begin: Begin, key: int) -> int | None:
        """Wait until the list shows the instance's task; None if the instance has ended without."""
        give_up_s = time.monotonic() + PATIENCE_S
        asks_s = time.monotonic() + ASKS_S
        while key not in self._tasks and time.monotonic() < give_up_s:
            await asyncio.sleep(LOOK_S)
            if time.monotonic() < asks_s:
                continue
            asks_s = time.monotonic() + ASKS_S
            try:
                async with self._clients.session() as session:
                    found = await find_instance(session, key, tenant_id=begin.tenant_id)
            except StoreUnavailable:
                continue
            if found is not None and found.found.ended_at is not None:
                break
        return self._tasks.get(key)

    async def _look(self) -> None:
        """Keep looking at the list of open tasks."""
        while True:
            try:
                async with self._clients.session() as session:
                    await self._list(session)
            except StoreUnavailable:
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(LOOK_S)

    async def _list(self, session: Session) -> None:
        after = 0
        while page := await find_tasks(session, after=after, page_size=PAGE):
            self._tasks.update({task.instance_key: task.task_key for task in page})
            after = page[-1].task_key
            if len(page) < PAGE:
                return

    def _call(self, begin: Begin, verb: str, **more: int | None) -> Call:
        call = Call(0, "start", begin.tenant_id, 0.0, None, "unknown", name=begin.key, process=begin.process_id)
        return replace(call, verb=verb, **more)  # type: ignore[arg-type]


def _starts(begin: Begin) -> Send:
    variables = {"n": 0, "act": begin.act, "due": f"PT{begin.due_s:.3f}S", "order": begin.key}

    async def send(session: Session, call: Call) -> Call:
        key = await start_process(
            session,
            begin.process_id,
            variables=variables,
            tenant_id=begin.tenant_id,
            idempotency_key=begin.key,
        )
        return replace(call, outcome="ok", instance_key=key)

    return send


def _completes(begin: Begin, task_key: int) -> Send:
    async def send(session: Session, call: Call) -> Call:
        variables = {"done": begin.key}
        done = await complete_task(session, task_key, variables=variables, tenant_id=begin.tenant_id)
        return replace(call, outcome="ok", answer="COMPLETED" if done == "COMPLETED" else "NOT_FOUND")

    return send


def _publishes(begin: Begin, key: int) -> Send:
    async def send(session: Session, call: Call) -> Call:
        reached = await publish_message(
            session,
            MESSAGE,
            correlation=begin.key,
            variables={"done": begin.key},
            tenant_id=begin.tenant_id,
            time_to_live_s=KEPT_S,
        )
        others = [it for it in reached if it != key]
        return replace(call, outcome="ok", answer=f"REACHED {others}" if others else "REACHED" if reached else "KEPT")

    return send


def _stops(begin: Begin, key: int) -> Send:
    async def send(session: Session, call: Call) -> Call:
        sent = await cancel_instance(session, key, tenant_id=begin.tenant_id)
        return replace(call, outcome="ok", answer="SENT" if sent == "SENT" else "NOT_FOUND")

    return send
