"""Test that bytes before or after the answer never count as an answer, and never block the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shardclock_server.webhooks.answer_classification import Delivered, RetryDelivery
from shardclock_server.webhooks.connection import BODY_BYTES_MAX, HEAD_BYTES_MAX, INTERIM_MAX
from shardclock_server.webhooks.sender import WebhookSender
from tests.support.receivers import DELIVERY, Behave, answering, receiving, saying, without_end
from tests.support.waiting import eventually

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\n\r\n"
LATE_S = 2.0  # a fault blocks the loop for ever; a busy machine may block it for half a second
SOON_S = 3.0


@asynccontextmanager
async def unstalled() -> AsyncIterator[None]:
    """Fail if the loop is blocked for long."""
    latest_s = 0.0

    async def tick() -> None:
        nonlocal latest_s
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.005)
            latest_s = max(latest_s, time.monotonic() - began_s)

    ticks = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticks.cancel()
    assert latest_s < LATE_S


class Pushing:
    """Answer the first request with 204, push bytes at the test's signal, and answer all other requests with 500."""

    def __init__(self, more: bytes) -> None:
        self.more = more
        self.pushes = asyncio.Event()
        self.pushed = asyncio.Event()
        self.closed = 0
        self._count = 0

    async def __call__(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        if self._count > 1:
            writer.write(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")
            return
        writer.write(ANSWER)
        await self.pushes.wait()
        try:
            writer.write(self.more)
            await writer.drain()
        finally:
            self.pushed.set()


async def test_an_unsolicited_answer_ends_the_connection_and_answers_no_request(sender: WebhookSender) -> None:
    behave = Pushing(ANSWER)
    async with receiving(behave) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
        behave.pushes.set()
        await eventually(lambda: sender._guard.open == 0, within_s=SOON_S)
        second = await sender.send(receiver.endpoint(), DELIVERY)
    assert isinstance(second, RetryDelivery)
    assert second.status == 500
    assert receiver.connections == 2


async def test_an_unread_answer_from_before_the_request_answers_no_request(sender: WebhookSender) -> None:
    behave = Pushing(ANSWER)
    async with receiving(behave) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
        assert sender._keeping.connector is not None
        ((kept, _),) = next(iter(sender._keeping.connector._conns.values()))
        assert kept.transport is not None
        # Given bytes in the socket that the loop has not read yet
        kept.transport.pause_reading()
        behave.pushes.set()
        await behave.pushed.wait()
        second = await sender.send(receiver.endpoint(), DELIVERY)
    assert isinstance(second, RetryDelivery)
    assert second.status == 500


@pytest.mark.parametrize("behave", [saying(2 * ANSWER), saying(20_000 * ANSWER)])
async def test_bytes_after_an_answer_end_the_connection(sender: WebhookSender, behave: Behave) -> None:
    async with receiving(behave) as receiver:
        for _ in range(2):
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
            await eventually(lambda: sender._guard.open == 0, within_s=SOON_S)
    assert receiver.connections == 2


async def test_a_flood_of_unsolicited_answers_is_not_parsed(sender: WebhookSender) -> None:
    async with unstalled(), receiving(without_end(ANSWER, 3_000 * ANSWER)) as receiver:
        await asyncio.gather(*(sender.send(receiver.endpoint(), DELIVERY) for _ in range(5)))
        await eventually(lambda: sender._guard.open == 0, within_s=SOON_S)


@pytest.mark.parametrize(
    "behave",
    [
        without_end(b"", 20_000 * HINT),
        saying((INTERIM_MAX + 1) * HINT + ANSWER),
        without_end(b"HTTP/1.1 103 Early Hints\r\n", b"a: " + b"b" * 4_000 + b"\r\n"),
    ],
    ids=["a flood", "one too many", "one without end"],
)
async def test_too_many_interim_answers_are_refused(sender: WebhookSender, behave: Behave) -> None:
    async with unstalled(), receiving(behave) as receiver:
        answers = await asyncio.gather(*(sender.send(receiver.endpoint(), DELIVERY) for _ in range(5)))
    for answer in answers:
        assert isinstance(answer, RetryDelivery)
        assert answer.reason == "the answer is not HTTP, or its headers are too long"


async def test_some_interim_answers_are_skipped(sender: WebhookSender) -> None:
    async with receiving(saying(INTERIM_MAX * HINT + ANSWER)) as receiver:
        for _ in range(20):
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
    assert receiver.connections == 1


async def test_heads_of_all_sizes_below_the_bound_are_read(sender: WebhookSender) -> None:
    for number in (1, 10, HEAD_BYTES_MAX // 1_100):
        lines = [f"h{n}: {'x' * 1_000}" for n in range(number)]
        async with receiving(answering("200 OK", *lines, body=b"fine")) as receiver:
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)


async def test_a_body_of_the_maximum_size_keeps_the_connection_and_a_larger_body_ends_it(sender: WebhookSender) -> None:
    for size, connections in ((BODY_BYTES_MAX, 1), (3 * BODY_BYTES_MAX, 2)):
        async with receiving(answering("500 Oops", body=b"a" * size)) as receiver:
            for _ in range(2):
                answer = await sender.send(receiver.endpoint(), DELIVERY)
                assert isinstance(answer, RetryDelivery)
                assert answer.reason.startswith("answered 500 Internal Server Error: aaa")
        assert receiver.connections == connections


async def test_answers_after_a_body_of_many_small_chunks_do_not_block_the_loop(sender: WebhookSender) -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + 2_500 * b"1\r\na\r\n" + b"0\r\n\r\n"
    async with receiving(saying(chunked + 20_000 * ANSWER)) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
        await eventually(lambda: sender._guard.open == 0, within_s=SOON_S)
