"""Test that a group's member over HTTP gets each record at least once, and returns unfinished records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pytest

from shardclock import AsyncClient
from shardclock.api.answers import Record
from shardclock.http import Conflict, async_log
from tests.support.factories import BOUND_S
from tests.support.gateways import Api, canceled
from tests.support.waiting import eventually

NAMES = [f"n{number}" for number in range(7)]


def consuming(client: AsyncClient, **how: Any) -> AbstractAsyncContextManager[AsyncIterator[Record]]:
    """Work as a member during a block. The result is a generator, although its declared type is more general."""
    return aclosing(client.consume("billing", **how))  # type: ignore[type-var]


async def consumed(client: AsyncClient, count: int, *, limit: int = 3) -> list[str | None]:
    """Process some records, and end the membership."""
    names: list[str | None] = []
    async with consuming(client, limit=limit) as records:
        async for record in records:
            names.append(record.name)
            if len(names) == count:
                break
    return names


async def test_a_record_is_done_when_the_next_record_is_requested_and_the_remaining_records_are_released(
    gateway: Api, client: AsyncClient
) -> None:
    await canceled(gateway, *NAMES)

    assert await consumed(client, 5) == NAMES[:5]
    assert await consumed(client, 3) == NAMES[4:]


async def test_a_member_without_records_waits_for_new_records(gateway: Api, client: AsyncClient) -> None:
    await canceled(gateway, "first")
    working = asyncio.create_task(consumed(client, 2))
    await eventually(lambda: gateway.gateway.wait_limits.streams.in_use == 1)

    await canceled(gateway, "second")

    assert await asyncio.wait_for(working, BOUND_S) == ["first", "second"]


async def test_a_lease_is_renewed_during_the_work(
    gateway: Api, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await canceled(gateway, *NAMES)
    now_s = 0.0
    monkeypatch.setattr(async_log, "monotonic", lambda: now_s)
    async with consuming(client, limit=7) as records:
        first = await anext(records)
        now_s += 5.0
        await anext(records)
        assert await _address(gateway) == 0, "there is time"
        now_s += 6.0
        third = await anext(records)
        assert first.position < await _address(gateway) < third.position


async def test_records_of_another_member_are_not_processed(gateway: Api, client: AsyncClient) -> None:
    await canceled(gateway, *NAMES)
    seen = list[Record]()
    async with consuming(client, limit=3, lease="PT1H") as records:
        seen.append(await anext(records))
        assert (await gateway.post("/v1/consumers/billing/seek", {"to": "start"})).status == 200
        lease = await gateway.post("/v1/consumers/billing/lease", {"limit": 2})
        await gateway.post("/v1/consumers/billing/acknowledge", {"token": lease.json["token"]})
        for _ in range(3):
            seen.append(await anext(records))

    assert [record.name for record in seen][:3] == NAMES[:3], "the member continues with its remaining records"
    assert seen[3].name == "n2", "then the member continues at the group's position"


async def test_a_group_with_a_different_number_of_partitions_is_refused(gateway: Api, client: AsyncClient) -> None:
    await canceled(gateway, "n")
    assert await consumed(client, 1) == ["n"]

    with pytest.raises(Conflict, match="partition"):
        await anext(client.consume("billing", partitions=7))


async def _address(gateway: Api) -> int:
    (group,) = (await gateway.get("/v1/consumers")).json["groups"]
    position: int = group["position"]
    return position
