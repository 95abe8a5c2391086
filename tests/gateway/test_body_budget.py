"""Test the memory limit of large bodies: they are served in order, and no tenant gets all the memory."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from starlette.requests import Request

from shardclock.api.codes import UNAVAILABLE
from shardclock_server.gateway.limits.body_budget import BodyBudget
from shardclock_server.gateway.requests.bodies import size_of_body
from shardclock_server.gateway.requests.problems import Problem
from tests.support.gateways import NDJSON, Api
from tests.support.waiting import eventually

LONG_S, AT_ONCE_S = 60.0, 0.05


class ReservedBody(NamedTuple):
    """A body that holds its bytes until `end`."""

    task: asyncio.Task[None]
    began: asyncio.Event
    ends: asyncio.Event

    async def end(self) -> None:
        """End the body, and release its bytes."""
        self.ends.set()
        await self.task


def body(body_budget: BodyBudget, tenant: str, size: int) -> ReservedBody:
    """Reserve bytes as soon as the limit permits."""
    began, ends = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with body_budget.reserve(tenant, size, within_s=LONG_S):
            began.set()
            await ends.wait()

    return ReservedBody(asyncio.create_task(hold()), began, ends)


async def begun(*bodies: ReservedBody) -> list[bool]:
    """Let all tasks run until they wait, then return the bodies that have started."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [it.began.is_set() for it in bodies]


async def test_bodies_get_memory_in_the_order_of_their_arrival() -> None:
    body_budget = BodyBudget(100)
    held = [body(body_budget, tenant, size) for tenant, size in (("a", 50), ("b", 40), ("c", 20), ("d", 5))]
    assert await begun(*held) == [True, True, False, False], "d waits behind c, though it has room"

    await held[1].end()
    assert await begun(*held[2:]) == [True, True]
    for one in (held[0], held[2], held[3]):
        await one.end()


async def test_a_tenant_has_at_most_half_of_the_bytes_and_delays_no_other_tenant() -> None:
    body_budget = BodyBudget(100)
    first, second, other = body(body_budget, "a", 40), body(body_budget, "a", 20), body(body_budget, "b", 50)
    assert await begun(first, second, other) == [True, False, True]

    await other.end()
    assert await begun(second) == [False], "its own tenant has no more"
    await first.end()
    assert await begun(second) == [True]
    await second.end()


async def test_a_body_that_times_out_or_is_cancelled_holds_no_bytes() -> None:
    body_budget = BodyBudget(100)
    async with AsyncExitStack() as held:
        for tenant in "ab":
            await held.enter_async_context(body_budget.reserve(tenant, 50, within_s=LONG_S))
        with pytest.raises(Problem, match=r"other large bodies are still in progress after 0\.05 s") as late:
            await held.enter_async_context(body_budget.reserve("c", 50, within_s=AT_ONCE_S))
        assert (late.value.code, late.value.headers) == (UNAVAILABLE, {"Retry-After": "1"})
        gone = body(body_budget, "d", 50)
        await begun(gone)
        gone.task.cancel()
        await asyncio.gather(gone.task, return_exceptions=True)

    last = [body(body_budget, tenant, 50) for tenant in "ab"]
    assert await begun(*last) == [True, True]
    for one in last:
        await one.end()


async def test_lines_wait_while_other_bodies_fill_the_gateway(api: Api) -> None:
    # Given bodies of two tenants that use all bytes
    async with AsyncExitStack() as held:
        for tenant in ("a", "b"):
            await held.enter_async_context(api.gateway.body_budget.reserve(tenant, 24 * 2**20, within_s=LONG_S))

        # When a body of lines arrives, and then a single timer
        lines = asyncio.create_task(api.post("/v1/timers/bulk", b'{"delay":"PT1H"}', **NDJSON))
        await eventually(api.gateway.body_budget._whole._lock.locked)
        assert (await api.post("/v1/timers", {"delay": "PT1H"})).status == 201
        assert not lines.done()

    # Then the gateway writes the lines as soon as the limit permits
    assert [line["outcome"] for line in (await lines).lines] == ["created"]


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ([(b"content-length", b"17")], 17),
        ([(b"content-length", b"101")], 100),
        ([(b"transfer-encoding", b"chunked")], 100),
    ],
    ids=["as it says", "longer than it may be", "it does not say"],
)
def test_a_body_reserves_its_content_length_up_to_the_limit(headers: list[tuple[bytes, bytes]], size: int) -> None:
    assert size_of_body(Request({"type": "http", "headers": headers}), bytes_max=100) == size
