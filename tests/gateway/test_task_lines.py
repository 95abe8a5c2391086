"""Callers that wait for service tasks: each task is given once, to who has waited longest, and nobody looks in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI

import gateway.task_lines
from cluster.testing import cluster
from gateway.task_lines import TaskLines
from sql.deliveries.hints import send_delivery_hint
from sql.session import Session
from tests.support.bpmn import job, model
from tests.support.deliveries import declare
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
        self.gone: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def look(self, who: str) -> int | None:
        self.looks.append(who)
        await self.gate.wait()
        return self.tasks.pop() if self.tasks else None

    async def is_gone(self, who: str) -> bool:
        return who in self.gone


@pytest.fixture
async def lines(dsn: str) -> AsyncIterator[TaskLines]:
    async with aclosing(TaskLines(as_role(dsn, "scheduler"))) as lines:
        yield lines


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let those who wait look when a hint comes alone."""
    monkeypatch.setattr(gateway.task_lines, "LOOK_S", 600.0)


Waiting = Callable[..., "asyncio.Task[int | None]"]


@pytest.fixture
def waiting(lines: TaskLines) -> Waiting:
    def begin(shelf: Shelf, who: str, within_s: float = 600.0, task_type: str = "pack") -> asyncio.Task[int | None]:
        return asyncio.create_task(
            lines.wait(
                "acme",
                task_type,
                lambda: shelf.look(who),
                found=lambda task: task is not None,
                is_gone=lambda: shelf.is_gone(who),
                within_s=within_s,
            )
        )

    return begin


async def has_lined_up(shelf: Shelf, *whose: str) -> None:
    """Wait until each has looked, and the first in line once more."""
    await eventually(lambda: set(whose) <= set(shelf.looks) and len(shelf.looks) > len(whose))


async def hint(dsn: str) -> None:
    await declare(dsn, "pack")
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await send_delivery_hint(session)


@pytest.mark.usefixtures("no_looks")
async def test_of_those_who_wait_for_a_type_the_first_alone_looks_again_and_has_the_task(
    dsn: str, lines: TaskLines, waiting: Waiting
) -> None:
    shelf = Shelf()
    first = waiting(shelf, "first")
    await has_lined_up(shelf, "first")
    second = waiting(shelf, "second")
    await eventually(lambda: "second" in shelf.looks)
    await eventually(lambda: lines._hints._on is not None)

    shelf.tasks = [1]
    await eventually(lambda: _rings(lines))
    assert await asyncio.wait_for(first, BOUND_S) == 1
    assert not second.done()

    # When a hint comes for the next
    await eventually(lambda: shelf.looks.count("second") == 2)
    shelf.tasks = [2]
    await hint(dsn)
    assert await asyncio.wait_for(second, BOUND_S) == 2


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
    await has_lined_up(shelf, "first")
    second = waiting(shelf, "second")
    await eventually(lambda: "second" in shelf.looks)

    shelf.gone.add("first")
    assert await asyncio.wait_for(first, BOUND_S) is None
    shelf.tasks = [1]
    assert await asyncio.wait_for(second, BOUND_S) == 1


@pytest.mark.usefixtures("no_looks")
async def test_when_a_gateway_stops_nobody_waits_any_longer(lines: TaskLines, waiting: Waiting) -> None:
    shelf = Shelf()
    others = [waiting(shelf, who, task_type=task_type) for who, task_type in (("a", "x"), ("b", "x"), ("c", "y"))]
    await eventually(lambda: {"a", "b", "c"} <= set(shelf.looks))

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
    await eventually(lambda: api.gateway.instance_waits.taken == 1)
    waits.cancel()
    await asyncio.wait({waits})
    await eventually(lambda: api.gateway.instance_waits.taken == 0)


def _rings(lines: TaskLines) -> bool:
    lines._ring()
    return True
