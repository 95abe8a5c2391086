"""Test that a gateway which is killed and restarted loses and doubles no timer and no record of its callers."""

from __future__ import annotations

import asyncio

import pytest

from shardclock import AsyncClient
from shardclock.http import Record
from tests.support.factories import BOUND_S, query, value
from tests.support.gateways import Api
from tests.support.restarting import RestartingGateway
from tests.support.waiting import eventually

TIMERS = 30_000
PART_LINES = 10_000
RECORDS = 300
COUNT = "select count(*) from shardclock.timers"


@pytest.mark.exhaustive
async def test_many_timers_are_scheduled_once_each_although_the_gateway_is_killed(dsn: str) -> None:
    async def kill_in_the_second_part(gateway: RestartingGateway) -> None:
        async def has_begun() -> bool:
            return bool(await value(dsn, COUNT) > PART_LINES)

        await eventually(has_begun)
        await asyncio.to_thread(gateway.restart)

    with RestartingGateway(dsn) as gateway:
        async with AsyncClient(gateway.url) as client:
            killing = asyncio.create_task(kill_in_the_second_part(gateway))
            timers = ({"delay": "PT1H", "name": f"n{n}", "on_conflict": "ignore"} for n in range(TIMERS))
            lines = [line async for line in client.schedule_many(timers, part_lines=PART_LINES)]  # type: ignore[arg-type]
            await killing

    assert [line.line for line in lines] == list(range(1, TIMERS + 1))
    # the answer was stored before the kill, so the repeated request gets the same answer
    assert {line.outcome for line in lines} == {"created", "unchanged"}
    stored = {
        row["name"]: row["timer_key"] for row in await query(dsn, "select name, timer_key from shardclock.timers")
    }
    assert await value(dsn, COUNT) == TIMERS
    assert [stored[f"n{n}"] for n in range(TIMERS)] == [line.timer_key for line in lines]


@pytest.mark.exhaustive
async def test_a_reader_of_the_stream_gets_each_record_once_although_its_gateway_is_killed(
    dsn: str, gateway: Api
) -> None:
    got: list[Record] = []

    async def follow(url: str) -> None:
        async with AsyncClient(url) as client:
            async for record in client.log(follow=True):
                got.append(record)
                if len(got) == RECORDS:
                    return

    async def write(count: int) -> None:
        async with AsyncClient(gateway.url) as client:
            for _ in range(count):
                await client.cancel(timer_key=(await client.schedule(delay="PT1H")).timer_key)

    with RestartingGateway(dsn) as killed:
        following = asyncio.create_task(follow(killed.url))
        for part in (1, 2):
            await write(RECORDS // 3)
            await eventually(lambda part=part: len(got) > part * RECORDS // 3 - 10)  # type: ignore[misc]
            restarting = asyncio.create_task(asyncio.to_thread(killed.restart))
            await write(RECORDS // 6)
            await restarting
        async with asyncio.timeout(BOUND_S):
            await following

    rows = await query(dsn, "select position from shardclock.command_log order by position")
    assert [record.position for record in got] == [row["position"] for row in rows]


@pytest.mark.exhaustive
async def test_a_wait_for_an_end_survives_a_killed_gateway(dsn: str, gateway: Api, client: AsyncClient) -> None:
    made = await client.schedule(delay="PT1H")
    with RestartingGateway(dsn) as killed:
        async with AsyncClient(killed.url) as other:
            waiting = asyncio.create_task(other.wait_for_end(timer_key=made.timer_key, within="PT60S"))
            await asyncio.to_thread(killed.restart)
            assert not waiting.done()
            await client.cancel(timer_key=made.timer_key)
            async with asyncio.timeout(BOUND_S):
                end = await waiting
    assert end is not None
    assert end.intent == "CANCELED"
