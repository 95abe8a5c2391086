"""Test that a reader of the log gets each record of its tenant once, in order, by pages and by stream."""

from __future__ import annotations

import asyncio
import json

import aiohttp

from tests.support.factories import BOUND_S
from tests.support.gateways import Api, canceled, serving


async def test_pages_give_each_record_of_the_tenant_once(api: Api) -> None:
    await canceled(api, "a", "b")
    await canceled(api, "x", "y", tenant="eve")
    await canceled(api, "c")

    names, after = [], 0
    while True:
        page = (await api.get(f"/v1/log?after={after}&limit=2")).json
        names += [record["name"] for record in page["records"]]
        if page["next"] == after:
            break
        after = page["next"]
    assert names == ["a", "b", "c"]


async def test_a_stream_continues_after_the_last_event_id(api: Api) -> None:
    await canceled(api, "a", "b")

    first = await events(api, 2, after="0")
    await canceled(api, "c")
    more = await events(api, 1, Last_Event_ID=str(first[0]["position"]), after="0")
    assert [record["name"] for record in first] == ["a", "b"]
    assert more[0]["name"] == "b"


async def test_a_stream_without_a_position_has_the_records_from_now_on(api: Api) -> None:
    await canceled(api, "old")
    begun = asyncio.Event()
    reading = asyncio.create_task(events(api, 1, begun=begun))
    await begun.wait()
    await canceled(api, "x", tenant="eve")
    await canceled(api, "new")

    assert [record["name"] for record in await reading] == ["new"]


async def test_a_stream_ends_when_the_gateway_stops(dsn: str) -> None:
    async with serving(dsn) as api:
        begun = asyncio.Event()
        reading = asyncio.create_task(events(api, 1, begun=begun))
        await begun.wait()
        api.stop()
        assert await reading == []


async def test_an_invalid_position_is_refused(api: Api) -> None:
    for path in ("/v1/log?after=-1", "/v1/log?after=x", "/v1/log?limit=501", "/v1/log/stream?after=x"):
        (await api.get(path)).assert_problem("refused", 422)


async def events(
    api: Api, count: int, after: str = "", *, begun: asyncio.Event | None = None, **headers: str
) -> list[dict[str, object]]:
    """Read this number of events, or fewer if the stream ends."""
    found: list[dict[str, object]] = []
    query = f"?after={after}" if after else ""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        asyncio.timeout(BOUND_S),
        aiohttp.ClientSession() as session,
        session.get(f"{api.url}/v1/log/stream{query}", headers=given) as answer,
    ):
        assert answer.content_type == "text/event-stream"
        async for line in answer.content:
            if begun is not None:
                begun.set()
            if line.startswith(b"data: "):
                found.append(json.loads(line[len(b"data: ") :]))
                if len(found) == count:
                    break
    return found
