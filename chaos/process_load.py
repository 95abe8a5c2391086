"""Start process instances, complete tasks, publish messages and cancel instances according to the plan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from chaos.clients import PATIENCE_S, PAUSE_S, Clients, Send
from chaos.history.calls import Call
from chaos.process_models import MESSAGE, PROCESSES
from chaos.process_plan import TENANTS, PlannedInstance
from shardclock_server.service.processes import deploy
from shardclock_server.sql.processes.instances import cancel_instance, find_instance, publish_message, start_process
from shardclock_server.sql.processes.tasks import complete_task, find_tasks
from shardclock_server.sql.session import Session, StoreUnavailable

POLL_S = 0.1  # The interval between polls for open tasks.
PAGE = 1_000
KEPT_S = 3_600.0  # The time for which a message is stored, so that its instance can receive it later.
ASKS_S = 2.0  # If a task is missing for this time, the client checks whether the instance has ended.


async def deploy_all(dsn: str) -> None:
    """Deploy every model for each tenant."""
    async with Session(dsn, application="chaos") as session:
        for tenant_id in TENANTS:
            for process in PROCESSES.values():
                resource = f"{process.process_id}.bpmn"
                await deploy(session, process.model, resource=resource, tenant_id=tenant_id)


class ProcessLoad:
    """Start the instances of a plan, and perform their clients' actions."""

    def __init__(self, clients: Clients, instances: Sequence[PlannedInstance]) -> None:
        self._clients = clients
        self._instances = instances
        self._tasks: dict[int, int] = {}  # The open tasks by instance.

    async def run(self) -> None:
        """Start each instance at its time, and wait for the last action."""
        if not self._instances:
            return
        begin_s = time.monotonic()
        polling = asyncio.create_task(self._poll())
        try:
            async with asyncio.TaskGroup() as clients:
                for it in self._instances:
                    await asyncio.sleep(begin_s + it.at_s - time.monotonic())
                    clients.create_task(self._drive(it), name=f"{it.process_id} {it.key}")
        finally:
            polling.cancel()

    async def _drive(self, planned: PlannedInstance) -> None:
        started = await self._clients.until_known(self._call(planned, "start"), _starts(planned))
        key = started.instance_key
        if key is None:
            return
        async with asyncio.TaskGroup() as work:
            if planned.drive_s is not None:
                work.create_task(self._do(planned, key, planned.drive_s))
            if planned.stop_s is not None:
                work.create_task(self._stop(planned, key, planned.stop_s))
            if planned.again_s is not None:
                work.create_task(self._start_again(planned, planned.again_s, first=started.resends))

    async def _start_again(self, planned: PlannedInstance, after_s: float, *, first: int | None) -> None:
        await asyncio.sleep(after_s)
        await self._clients.until_known(self._call(planned, "start", resends=first), _starts(planned))

    async def _do(self, planned: PlannedInstance, key: int, after_s: float) -> None:
        """Complete the task of an instance, or publish the message that the instance waits for."""
        await asyncio.sleep(after_s)
        if PROCESSES[planned.process_id].message:
            await self._clients.until_known(self._call(planned, "publish", instance_key=key), _publishes(planned, key))
        elif task_key := await self._task_of(planned, key):
            call = self._call(planned, "complete", instance_key=key, task_key=task_key)
            await self._clients.until_known(call, _completes(planned, task_key))

    async def _stop(self, planned: PlannedInstance, key: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._clients.until_known(self._call(planned, "stop", instance_key=key), _stops(planned, key))

    async def _task_of(self, planned: PlannedInstance, key: int) -> int | None:
        """Wait until the list of open tasks has the instance's task.

        Return None if the instance has ended without a task.
        """
        give_up_s = time.monotonic() + PATIENCE_S
        asks_s = time.monotonic() + ASKS_S
        while key not in self._tasks and time.monotonic() < give_up_s:
            await asyncio.sleep(POLL_S)
            if time.monotonic() < asks_s:
                continue
            asks_s = time.monotonic() + ASKS_S
            try:
                async with self._clients.session() as session:
                    found = await find_instance(session, key, tenant_id=planned.tenant_id)
            except StoreUnavailable:
                continue
            if found is not None and found.found.ended_at is not None:
                break
        return self._tasks.get(key)

    async def _poll(self) -> None:
        """Poll the list of open tasks."""
        while True:
            try:
                async with self._clients.session() as session:
                    await self._list(session)
            except StoreUnavailable:
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(POLL_S)

    async def _list(self, session: Session) -> None:
        after = 0
        while page := await find_tasks(session, after=after, page_size=PAGE):
            self._tasks.update({task.instance_key: task.task_key for task in page})
            after = page[-1].task_key
            if len(page) < PAGE:
                return

    def _call(self, planned: PlannedInstance, verb: str, **more: int | None) -> Call:
        call = Call(0, "start", planned.tenant_id, 0.0, None, "unknown", name=planned.key, process=planned.process_id)
        return replace(call, verb=verb, **more)  # type: ignore[arg-type]


def _starts(planned: PlannedInstance) -> Send:
    variables = {"n": 0, "act": planned.act, "due": f"PT{planned.due_s:.3f}S", "order": planned.key}

    async def send(session: Session, call: Call) -> Call:
        key = await start_process(
            session,
            planned.process_id,
            variables=variables,
            tenant_id=planned.tenant_id,
            idempotency_key=planned.key,
        )
        return replace(call, outcome="ok", instance_key=key)

    return send


def _completes(planned: PlannedInstance, task_key: int) -> Send:
    async def send(session: Session, call: Call) -> Call:
        variables = {"done": planned.key}
        done = await complete_task(session, task_key, variables=variables, tenant_id=planned.tenant_id)
        return replace(call, outcome="ok", answer="COMPLETED" if done == "COMPLETED" else "NOT_FOUND")

    return send


def _publishes(planned: PlannedInstance, key: int) -> Send:
    async def send(session: Session, call: Call) -> Call:
        reached = await publish_message(
            session,
            MESSAGE,
            correlation=planned.key,
            variables={"done": planned.key},
            tenant_id=planned.tenant_id,
            time_to_live_s=KEPT_S,
        )
        others = [it for it in reached if it != key]
        return replace(call, outcome="ok", answer=f"REACHED {others}" if others else "REACHED" if reached else "KEPT")

    return send


def _stops(planned: PlannedInstance, key: int) -> Send:
    async def send(session: Session, call: Call) -> Call:
        sent = await cancel_instance(session, key, tenant_id=planned.tenant_id)
        return replace(call, outcome="ok", answer="SENT" if sent == "SENT" else "NOT_FOUND")

    return send
