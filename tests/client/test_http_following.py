"""Test that a reader gets each record once despite lost connections, and gives up if no connection lasts."""

from __future__ import annotations

import asyncio
import json

import pytest

from shardclock import ApiError, AsyncClient
from shardclock.http import NoAnswer
from tests.support.factories import BOUND_S
from tests.support.lossy import Stub, answering, raw

EVENTS = "text/event-stream"


def event(position: int) -> str:
    record = {
        "position": position, "recorded_at": "2027-01-31T08:00:00Z", "intent": "CANCELED", "timer_key": position,
        "tenant_id": "default", "name": None, "due_date": "2027-01-31T08:00:00Z", "occurrence": 1, "schedule": None,
        "target": "log", "payload": {"text": "ä\n\nid: 9"}, "detail": None, "added_later": True,
    }  # fmt: skip
    return f"id: {position}\nevent: CANCELED\ndata: {json.dumps(record)}\n\n"


def stream(*texts: str) -> bytes:
    return raw(200, "".join(texts), EVENTS)


def asked_after(stub: Stub) -> list[int]:
    return [int(head.split("after=")[1].split(" ")[0]) for head in stub.heads]


async def positions(client: AsyncClient, count: int, *, after: int = 0) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(BOUND_S):
        async for record in client.log(after=after, follow=True):
            found.append(record.position)
            if len(found) == count:
                break
    return found


async def test_a_lost_stream_is_resumed_after_the_last_record() -> None:
    async with (
        answering(stream(event(11), event(12)), b"", raw(503), stream(event(15))) as stub,
        AsyncClient(stub.url) as client,
    ):
        assert await positions(client, 3, after=7) == [11, 12, 15]
    assert asked_after(stub) == [7, 12, 12, 12]


async def test_a_repeated_record_is_yielded_once() -> None:
    async with (
        answering(stream(event(1), event(2)), stream(event(2), event(3))) as stub,
        AsyncClient(stub.url) as client,
    ):
        assert await positions(client, 3) == [1, 2, 3]


async def test_an_incomplete_event_is_ignored() -> None:
    half = event(2)
    for cut in (half[:-1], half[:-2], half[:20]):
        async with answering(stream(event(1), cut), stream(event(2))) as stub, AsyncClient(stub.url) as client:
            assert await positions(client, 2) == [1, 2]
        assert asked_after(stub) == [0, 1]


async def test_comments_and_positions_are_not_records() -> None:
    said = stream(": the log follows\n\n", "id: 7\n\n", ": still there\n\n", event(8))
    async with answering(said) as stub, AsyncClient(stub.url) as client:
        assert await positions(client, 1) == [8]


async def test_if_each_stream_ends_immediately_the_reader_gives_up() -> None:
    async with answering(stream(": the log follows\n\n")) as stub, AsyncClient(stub.url, retry_for="PT0.5S") as client:
        with pytest.raises(NoAnswer, match="the stream has ended"):
            await positions(client, 1)
    assert len(stub.heads) > 1


@pytest.mark.parametrize(
    "answer", [raw(200, "<html>", "text/html"), stream("data: {}\n\n"), stream("data: <html>\n\n")]
)
async def test_a_response_that_is_not_a_stream_is_an_error_without_a_retry(answer: bytes) -> None:
    async with answering(answer) as stub, AsyncClient(stub.url) as client:
        with pytest.raises(ApiError, match="not by a gateway"):
            await positions(client, 1)
    assert len(stub.heads) == 1
