"""Test waits for service tasks: each task goes to the caller that has waited longest, and other callers do not read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI
from starlette.types import Message

import shardclock_server.gateway.waits.task_waiters
from shardclock_server.cluster.testing import cluster
from shardclock_server.gateway.waits.task_waiters import TaskWaiters
from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.deliveries.notifications import notify_of_deliveries
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.bpmn import job, model
from tests.support.deliveries import add_deliveries, declare
from tests.support.factories import BOUND_S
from tests.support.gateways import Api
from tests.support.roles import as_role
from tests.support.waiting import eventually

PACK = model(f'<startEvent id="s"/>{job("pack")}<endEvent id="e"/>', connected="s>pack pack>e")


class Shelf:
    """A stand-in for the tasks in Postgres; it records each caller that reads."""

    def __init__(self) -> None:
        self.tasks: list[int] = []
        self.looks: list[str] = []
        self.gone: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.gate = asyncio.Event()
        self.gate.set()

    async def look(self, who: str) -> int | None:
        self.looks.append(who)
        await self.gate.wait()
        return self.tasks.pop() if self.tasks else None

    async def receive(self, who: str) -> Message:
        await self.gone[who].wait()
        return {"type": "http.disconnect"}


@pytest.fixture
async def lines(dsn: str) -> AsyncIterator[TaskWaiters]:
    async with aclosing(TaskWaiters(as_role(dsn, "scheduler"))) as lines:
        yield lines


Waiting = Callable[..., "asyncio.Task[int | None]"]


@pytest.fixture
def waiting(lines: TaskWaiters) -> Waiting:
    def begin(shelf: Shelf, who: str, within_s: float = 600.0, task_type: str = "pack") -> asyncio.Task[int | None]:
        return asyncio.create_task(
            lines.wait(Lane(task_type, "acme"), lambda: shelf.look(who), lambda: shelf.receive(who), within_s=within_s)
        )

    return begin


async def is_first(shelf: Shelf, who: str) -> None:
    """Wait until a caller has read twice: at its arrival, and when it became the first."""
    await eventually(lambda: shelf.looks.count(who) == 2)


async def open_task(dsn: str, task_type: str) -> None:
    """Store a due task of a type, and send its notification."""
    await add_deliveries(dsn, 1, task_type, tenant_id="'acme'", timer_type="'SERVICE_TASK'")
    await declare(dsn, task_type)
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await notify_of_deliveries(session)


async def test_only_the_first_waiting_caller_of_a_type_reads_and_gets_the_task(
    dsn: str, lines: TaskWaiters, waiting: Waiting
) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")
    second = waiting(shelf, "second")
    await eventually(lambda: lines._notifications._on is not None)

    shelf.tasks = [1]
    await open_task(dsn, "pack")
    assert await asyncio.wait_for(first, BOUND_S) == 1
    await eventually(lambda: "second" in shelf.looks)
    assert not second.done()
    shelf.tasks = [2]
    assert await asyncio.wait_for(second, BOUND_S) == 2
    assert shelf.looks[:3] == ["first", "first", "first"]


async def test_tasks_of_another_type_cause_no_reads(
    dsn: str, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.gateway.waits.task_waiters, "POLL_S", 0.01)
    packing, painting = Shelf(), Shelf()
    both = [waiting(packing, "packer"), waiting(painting, "painter", task_type="paint")]
    await is_first(packing, "packer")
    await is_first(painting, "painter")

    await open_task(dsn, "pack")
    await eventually(lambda: len(packing.looks) > 10)

    assert painting.looks == ["painter", "painter"]
    for one in both:
        one.cancel()


async def test_a_new_caller_gets_no_task_before_a_waiting_caller(waiting: Waiting) -> None:
    shelf = Shelf()
    waits = waiting(shelf, "waits")
    await is_first(shelf, "waits")
    shelf.tasks = [1]

    comes = waiting(shelf, "comes", 0.05)

    assert await asyncio.wait_for(comes, BOUND_S) is None
    assert shelf.tasks == [1]
    waits.cancel()


async def test_a_disconnected_caller_leaves_the_queue(waiting: Waiting) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")
    second = waiting(shelf, "second")

    shelf.gone["second"].set()

    assert await asyncio.wait_for(second, BOUND_S) is None
    assert not first.done()
    first.cancel()


async def test_waiting_callers_get_the_error_of_an_outage(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(session: Session, lanes: object) -> list[Lane]:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(shardclock_server.gateway.waits.task_waiters, "lanes_with_tasks", fail)
    monkeypatch.setattr(shardclock_server.gateway.waits.task_waiters, "POLL_S", 0.01)
    shelf = Shelf()
    waits = waiting(shelf, "waits")
    await eventually(lambda: len(shelf.looks) > 3)
    waits.cancel()


async def test_a_caller_without_a_task_is_answered_after_its_timeout(waiting: Waiting) -> None:
    shelf = Shelf()
    both = [waiting(shelf, who, 0.2) for who in ("first", "second")]
    assert await asyncio.wait_for(asyncio.gather(*both), BOUND_S) == [None, None]


async def test_a_read_for_tasks_is_not_cancelled_at_the_timeout(waiting: Waiting) -> None:
    shelf = Shelf()
    shelf.gate.clear()
    late = waiting(shelf, "late", 0.01)
    await eventually(lambda: "late" in shelf.looks)
    assert not (await asyncio.wait({late}, timeout=0.1))[0]

    shelf.tasks = [1]
    shelf.gate.set()
    assert await asyncio.wait_for(late, BOUND_S) == 1


async def test_a_disconnected_caller_gets_no_task(waiting: Waiting) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")
    second = waiting(shelf, "second")

    shelf.tasks = [1]
    shelf.gone["first"].set()
    assert await asyncio.wait_for(first, BOUND_S) is None
    assert await asyncio.wait_for(second, BOUND_S) == 1


async def test_a_disconnected_caller_takes_no_task(lines: TaskWaiters, waiting: Waiting) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")

    shelf.gone["first"].set()
    shelf.tasks = [1]
    lines._wake([Lane("pack", "acme")])

    assert await asyncio.wait_for(first, BOUND_S) is None
    assert shelf.tasks == [1]


async def test_a_stopping_gateway_ends_all_waits_for_tasks(lines: TaskWaiters, waiting: Waiting) -> None:
    shelf = Shelf()
    others = [waiting(shelf, who, task_type=task_type) for who, task_type in (("a", "x"), ("b", "x"), ("c", "y"))]
    await eventually(lambda: {"a", "c"} <= set(shelf.looks))

    lines.stop()
    assert await asyncio.wait_for(asyncio.gather(*others), BOUND_S) == [None, None, None]


async def test_a_program_that_waits_over_http_gets_a_task_when_an_engine_opens_it() -> None:
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        await api.deploy(PACK)
        asked: dict[str, Any] = {"type": "pack", "lease": "PT1M"}
        assert (await api.post("/v1/service-tasks/activate?wait=PT0.1S", asked)).json == {"tasks": []}
        waits = asyncio.create_task(api.post("/v1/service-tasks/activate?wait=PT30S", asked))
        key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]
        await sc.advance("PT0S")
        (task,) = (await asyncio.wait_for(waits, BOUND_S)).json["tasks"]
        assert task["instance_key"] == key
        refused = await api.post("/v1/service-tasks/activate?wait=PT1H", asked)
        refused.assert_problem("refused", 422, "wait 'PT1H' is refused: it must be at most PT300S")


async def test_a_disconnected_program_ends_its_wait_for_tasks(api: Api) -> None:
    waits = asyncio.create_task(api.post("/v1/service-tasks/activate?wait=PT5M", {"type": "pack"}))
    await eventually(lambda: api.gateway.wait_limits.tasks.in_use == 1)
    waits.cancel()
    await asyncio.wait({waits})
    await eventually(lambda: api.gateway.wait_limits.tasks.in_use == 0)
