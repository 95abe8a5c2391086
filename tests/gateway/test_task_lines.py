"""Callers that wait for service tasks: each task is given once, to who has waited longest, and nobody looks in vain."""

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

import shardclock_server.gateway.waits.task_lines
from shardclock_server.cluster.testing import cluster
from shardclock_server.gateway.waits.task_lines import TaskLines
from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.deliveries.hints import send_delivery_hint
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.bpmn import job, model
from tests.support.deliveries import add_deliveries, declare
from tests.support.factories import BOUND_S
from tests.support.gateways import Api
from tests.support.roles import as_role
from tests.support.waiting import eventually

XML = {"Content-Type": "application/xml"}
PACK = model(f'<startEvent id="s"/>{job("pack")}<endEvent id="e"/>', connected="s>pack pack>e")


class Shelf:
    """Where tasks are put, and who has looked."""

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
async def lines(dsn: str) -> AsyncIterator[TaskLines]:
    async with aclosing(TaskLines(as_role(dsn, "scheduler"))) as lines:
        yield lines


Waiting = Callable[..., "asyncio.Task[int | None]"]


@pytest.fixture
def waiting(lines: TaskLines) -> Waiting:
    def begin(shelf: Shelf, who: str, within_s: float = 600.0, task_type: str = "pack") -> asyncio.Task[int | None]:
        return asyncio.create_task(
            lines.wait(Lane(task_type, "acme"), lambda: shelf.look(who), lambda: shelf.receive(who), within_s=within_s)
        )

    return begin


async def is_first(shelf: Shelf, who: str) -> None:
    """Wait until somebody has looked twice: when he came, and when nobody stood before him."""
    await eventually(lambda: shelf.looks.count(who) == 2)


async def open_task(dsn: str, task_type: str) -> None:
    """Put a task of a type where programs find it, and tell of it."""
    await add_deliveries(dsn, 1, task_type, tenant_id="'acme'", timer_type="'SERVICE_TASK'")
    await declare(dsn, task_type)
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await send_delivery_hint(session)


async def test_of_those_who_wait_for_a_type_the_first_alone_looks_and_has_the_task(
    dsn: str, lines: TaskLines, waiting: Waiting
) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")
    second = waiting(shelf, "second")
    await eventually(lambda: lines._hints._on is not None)

    shelf.tasks = [1]
    await open_task(dsn, "pack")
    assert await asyncio.wait_for(first, BOUND_S) == 1
    await eventually(lambda: "second" in shelf.looks)
    assert not second.done()
    shelf.tasks = [2]
    assert await asyncio.wait_for(second, BOUND_S) == 2
    assert shelf.looks[:3] == ["first", "first", "first"]


async def test_nobody_looks_because_there_are_tasks_of_another_type(
    dsn: str, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.gateway.waits.task_lines, "ASK_S", 0.01)
    packing, painting = Shelf(), Shelf()
    both = [waiting(packing, "packer"), waiting(painting, "painter", task_type="paint")]
    await is_first(packing, "packer")
    await is_first(painting, "painter")

    await open_task(dsn, "pack")
    await eventually(lambda: len(packing.looks) > 10)

    assert painting.looks == ["painter", "painter"]
    for one in both:
        one.cancel()


async def test_who_comes_while_another_waits_takes_nothing_from_under_it(waiting: Waiting) -> None:
    shelf = Shelf()
    waits = waiting(shelf, "waits")
    await is_first(shelf, "waits")
    shelf.tasks = [1]

    comes = waiting(shelf, "comes", 0.05)

    assert await asyncio.wait_for(comes, BOUND_S) is None
    assert shelf.tasks == [1]
    waits.cancel()


async def test_who_has_hung_up_keeps_no_place_in_the_line(waiting: Waiting) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")
    second = waiting(shelf, "second")

    shelf.gone["second"].set()

    assert await asyncio.wait_for(second, BOUND_S) is None
    assert not first.done()
    first.cancel()


async def test_an_outage_is_learned_by_who_waits(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(session: Session, lanes: object) -> list[Lane]:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(shardclock_server.gateway.waits.task_lines, "lanes_with_tasks", fail)
    monkeypatch.setattr(shardclock_server.gateway.waits.task_lines, "ASK_S", 0.01)
    shelf = Shelf()
    waits = waiting(shelf, "waits")
    await eventually(lambda: len(shelf.looks) > 3)
    waits.cancel()


async def test_who_gets_no_task_in_time_is_told_so(waiting: Waiting) -> None:
    shelf = Shelf()
    both = [waiting(shelf, who, 0.2) for who in ("first", "second")]
    assert await asyncio.wait_for(asyncio.gather(*both), BOUND_S) == [None, None]


async def test_a_look_is_not_broken_off_when_the_time_is_over(waiting: Waiting) -> None:
    shelf = Shelf()
    shelf.gate.clear()
    late = waiting(shelf, "late", 0.01)
    await eventually(lambda: "late" in shelf.looks)
    assert not (await asyncio.wait({late}, timeout=0.1))[0]

    shelf.tasks = [1]
    shelf.gate.set()
    assert await asyncio.wait_for(late, BOUND_S) == 1


async def test_a_caller_that_is_gone_is_given_nothing(waiting: Waiting) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")
    second = waiting(shelf, "second")

    shelf.tasks = [1]
    shelf.gone["first"].set()
    assert await asyncio.wait_for(first, BOUND_S) is None
    assert await asyncio.wait_for(second, BOUND_S) == 1


async def test_who_has_hung_up_takes_no_task_when_one_comes(lines: TaskLines, waiting: Waiting) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await is_first(shelf, "first")

    shelf.gone["first"].set()
    shelf.tasks = [1]
    lines._ring([Lane("pack", "acme")])

    assert await asyncio.wait_for(first, BOUND_S) is None
    assert shelf.tasks == [1]


async def test_when_a_gateway_stops_nobody_waits_any_longer(lines: TaskLines, waiting: Waiting) -> None:
    shelf = Shelf()
    others = [waiting(shelf, who, task_type=task_type) for who, task_type in (("a", "x"), ("b", "x"), ("c", "y"))]
    await eventually(lambda: {"a", "c"} <= set(shelf.looks))

    lines.stop()
    assert await asyncio.wait_for(asyncio.gather(*others), BOUND_S) == [None, None, None]


async def test_a_program_that_waits_over_http_has_a_task_when_an_engine_opens_one() -> None:
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        await api.ask_raw("POST", "/v1/processes", PACK, XML)
        asked: dict[str, Any] = {"type": "pack", "lease": "PT1M"}
        assert (await api.post("/v1/service-tasks/activate?wait=PT0.1S", asked)).json == {"tasks": []}
        waits = asyncio.create_task(api.post("/v1/service-tasks/activate?wait=PT30S", asked))
        key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]
        await sc.advance("PT0S")
        (task,) = (await asyncio.wait_for(waits, BOUND_S)).json["tasks"]
        assert task["instance_key"] == key
        refused = await api.post("/v1/service-tasks/activate?wait=PT1H", asked)
        refused.assert_problem("refused", 422, "wait 'PT1H' is refused: it must be at most PT300S")


async def test_a_program_that_hangs_up_waits_no_longer_and_so_takes_no_task_along(api: Api) -> None:
    waits = asyncio.create_task(api.post("/v1/service-tasks/activate?wait=PT5M", {"type": "pack"}))
    await eventually(lambda: api.gateway.task_wait_places.taken == 1)
    waits.cancel()
    await asyncio.wait({waits})
    await eventually(lambda: api.gateway.task_wait_places.taken == 0)
