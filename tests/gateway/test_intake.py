"""Large bodies have a bound together. Who comes first is first, and no tenant has all of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from starlette.requests import Request

from shardclock_server.gateway.limits.intake import Intake
from shardclock_server.gateway.requests.bodies import size_of_body
from shardclock_server.gateway.requests.problems import TRY_AGAIN, Problem
from tests.support.gateways import NDJSON, Api
from tests.support.waiting import eventually

LONG_S, AT_ONCE_S = 60.0, 0.05


class Body(NamedTuple):
    """One that holds its bytes until it is told to end."""

    task: asyncio.Task[None]
    began: asyncio.Event
    ends: asyncio.Event

    async def end(self) -> None:
        """Let it end."""
        self.ends.set()
        await self.task


def body(intake: Intake, tenant: str, size: int) -> Body:
    """Hold bytes, as soon as there is room."""
    began, ends = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with intake.hold(tenant, size, within_s=LONG_S):
            began.set()
            await ends.wait()

    return Body(asyncio.create_task(hold()), began, ends)


async def begun(*bodies: Body) -> list[bool]:
    """Say which of some bodies have begun, once all that can has happened."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [it.began.is_set() for it in bodies]


async def test_bodies_begin_in_their_order_as_soon_as_there_is_room() -> None:
    intake = Intake(100)
    held = [body(intake, tenant, size) for tenant, size in (("a", 50), ("b", 40), ("c", 20), ("d", 5))]
    assert await begun(*held) == [True, True, False, False], "d waits behind c, though it has room"

    await held[1].end()
    assert await begun(*held[2:]) == [True, True]
    for one in (held[0], held[2], held[3]):
        await one.end()


async def test_a_tenant_has_half_of_all_and_keeps_no_other_waiting() -> None:
    intake = Intake(100)
    first, second, other = body(intake, "a", 40), body(intake, "a", 20), body(intake, "b", 50)
    assert await begun(first, second, other) == [True, False, True]

    await other.end()
    assert await begun(second) == [False], "its own tenant has no more"
    await first.end()
    assert await begun(second) == [True]
    await second.end()


async def test_who_gets_no_room_in_time_or_goes_away_keeps_none() -> None:
    intake = Intake(100)
    async with AsyncExitStack() as held:
        for tenant in "ab":
            await held.enter_async_context(intake.hold(tenant, 50, within_s=LONG_S))
        with pytest.raises(Problem, match=r"large bodies of others are still being worked on after 0\.05 s") as late:
            await held.enter_async_context(intake.hold("c", 50, within_s=AT_ONCE_S))
        assert (late.value.kind, late.value.headers) == (TRY_AGAIN, {"Retry-After": "1"})
        gone = body(intake, "d", 50)
        await begun(gone)
        gone.task.cancel()
        await asyncio.gather(gone.task, return_exceptions=True)

    last = [body(intake, tenant, 50) for tenant in "ab"]
    assert await begun(*last) == [True, True]
    for one in last:
        await one.end()


async def test_lines_wait_while_other_bodies_fill_the_gateway(api: Api) -> None:
    # Given bodies of two tenants that have all the room
    async with AsyncExitStack() as held:
        for tenant in ("a", "b"):
            await held.enter_async_context(api.gateway.intake.hold(tenant, 24 * 2**20, within_s=LONG_S))

        # When lines come, and a single timer
        lines = asyncio.create_task(api.post("/v1/timers/bulk", b'{"delay":"PT1H"}', **NDJSON))
        await eventually(api.gateway.intake._whole._lock.locked)
        assert (await api.post("/v1/timers", {"delay": "PT1H"})).status == 201
        assert not lines.done()

    # Then the lines are written once there is room
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
def test_how_much_a_body_holds(headers: list[tuple[bytes, bytes]], size: int) -> None:
    assert size_of_body(Request({"type": "http", "headers": headers}), bytes_max=100) == size
