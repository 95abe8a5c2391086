"""Test that endless headers and requests are cut off, and that ordinary connections are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shardclock_server.gateway import protocol
from shardclock_server.gateway.protocol import HEAD_BYTES_MAX
from tests.support.factories import BOUND_S, pending_rows, query
from tests.support.gateways import NDJSON, Api, serving
from tests.support.waiting import eventually

CHUNKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
FOLLOWING = b"GET /v1/log/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
BEGUN = b"GET / HTTP/1.1\r\nX: "
PIECE = 16_384
LONG_RECORDS = """
insert into shardclock.command_log
    (timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, payload)
select i, now(), now(), 1, 'CANCELED', 'default', 'USER', 'log', to_jsonb(repeat('x', 60000))
from generate_series(1, 300) i
"""


class ByteConnection(asyncio.Protocol):
    """One connection to a gateway, byte by byte; bytes that came before a reset are kept."""

    def __init__(self) -> None:
        self._came = bytearray()
        self._closed = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Store the bytes."""
        self._came += data

    def connection_lost(self, _: Exception | None) -> None:
        """Note the end."""
        self._closed.set()

    async def send(self, data: bytes) -> None:
        """Send some bytes, and let the gateway read them."""
        self.transport.write(data)
        await asyncio.sleep(0.005)

    async def answer(self) -> bytes:
        """Read a response to its end, and return its status line."""
        await eventually(lambda: b"\r\n\r\n" in self._came)
        head = bytes(self._came).partition(b"\r\n\r\n")[0]
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await eventually(lambda: len(self._came) >= len(head) + 4 + length)
        del self._came[: len(head) + 4 + length]
        return head.split(b"\r\n")[0]

    async def closed(self) -> bytes:
        """Wait until the gateway closes the connection, and return all bytes that it sent before."""
        async with asyncio.timeout(BOUND_S):
            await self._closed.wait()
        return bytes(self._came)

    async def sent_until_closed(self, piece: bytes, *, bytes_max: int = 100 * PIECE) -> int:
        """Send a piece repeatedly until the gateway closes the connection; return the number of sent bytes."""
        sent = 0
        while sent < bytes_max and not self._closed.is_set():
            await self.send(piece)
            sent += len(piece)
        return sent


@asynccontextmanager
async def connected(api: Api) -> AsyncIterator[ByteConnection]:
    """Connect to a gateway."""
    host, port = api.url.removeprefix("http://").split(":")
    transport, wire = await asyncio.get_running_loop().create_connection(ByteConnection, host, int(port))
    try:
        yield wire
    finally:
        transport.abort()


@pytest.mark.slow
async def test_headers_that_are_too_large_or_do_not_end_close_the_connection(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.3)
    async with serving(dsn) as api:
        for sent, answer in ((BEGUN, b""), (BEGUN + b"a" * 200_000, b"HTTP/1.1 431")):
            async with connected(api) as wire:
                await wire.send(sent)
                assert (await wire.closed()).startswith(answer)
        assert (await api.get("/healthz")).status == 200
        assert (await api.post("/v1/timers/bulk", b"\n" * 200_000, Content_Type=NDJSON["Content-Type"])).status == 200


async def test_the_headers_of_a_second_request_have_the_same_limit(api: Api) -> None:
    async with connected(api) as wire:
        await wire.send(WHOLE)
        assert await wire.answer() == b"HTTP/1.1 200 OK"
        await wire.send(BEGUN + b"a" * 100_000 + b"\r\n\r\n")
        assert (await wire.closed()).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    ("pieces", "status"),
    [((BEGUN + b"a" * 100_000, b"a" * 100_000), b"431"), ((b"no request\r\n\r\n",), b"400")],
    ids=["headers that are too large", "an error of the parser"],
)
async def test_a_refusal_is_not_written_into_another_response(
    api: Api, pieces: tuple[bytes, ...], status: bytes
) -> None:
    async with connected(api) as wire:
        await wire.send(FOLLOWING)
        await eventually(lambda: api.gateway.wait_limits.streams.in_use == 1)
        for piece in pieces:
            await wire.send(piece)
        assert status not in await wire.closed()


@pytest.mark.parametrize(
    ("begun", "piece"),
    [
        (b"0\r\nX: ", b"a" * PIECE),
        (b"0\r\n", b"X: a\r\n" * (PIECE // 6)),
        (b"0\r\n", b"x" * PIECE),
        (b"1;x=", b"a" * PIECE),
    ],
    ids=["an-endless-trailer", "endless-trailers", "an-endless-name", "an-endless-extension"],
)
async def test_trailers_and_chunk_headers_are_also_limited(
    api: Api, monkeypatch: pytest.MonkeyPatch, begun: bytes, piece: bytes
) -> None:
    monkeypatch.setattr(protocol, "REST_S", 10 * BOUND_S)
    async with connected(api) as wire:
        await wire.send(CHUNKED)
        assert await wire.answer() == b"HTTP/1.1 200 OK"
        await wire.send(begun)
        assert await wire.sent_until_closed(piece) < 2 * HEAD_BYTES_MAX + 4 * PIECE


async def test_a_chunked_body_may_exceed_the_limit_of_headers(api: Api) -> None:
    async with connected(api) as wire:
        await wire.send(b"POST /v1/timers HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        await wire.send(b"3\r\n{  \r\n")
        for _ in range(6):
            await wire.send(b"%x\r\n" % PIECE + b" " * PIECE + b"\r\n")
        await wire.send(b'e\r\n"delay":"PT1H"\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n')
        assert await wire.answer() == b"HTTP/1.1 201 Created"


async def test_a_trailer_is_not_a_header(dsn: str, api: Api) -> None:
    head = b"POST /v1/timers HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b'{"delay":"PT1H"}'
    async with connected(api) as wire:
        await wire.send(head + b"%x\r\n%b\r\n0\r\nShardclock-Tenant: eve\r\n\r\n" % (len(body), body))
        assert await wire.answer() == b"HTTP/1.1 201 Created"
    assert [timer["tenant_id"] for timer in await pending_rows(dsn)] == ["default"]


async def test_an_endless_request_is_closed_after_its_response(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "REST_S", 0.1)
    async with connected(api) as wire:
        await wire.send(CHUNKED)
        assert await wire.answer() == b"HTTP/1.1 200 OK"
        assert await wire.sent_until_closed(b"1\r\nx\r\n", bytes_max=1_200) < 1_200


async def test_a_request_that_ends_after_its_answer_keeps_its_connection(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "REST_S", 0.5)
    async with connected(api) as wire:
        await wire.send(CHUNKED)
        assert await wire.answer() == b"HTTP/1.1 200 OK"
        await wire.send(b"1\r\nx\r\n0\r\n\r\n")
        await asyncio.sleep(0.6)  # longer than the time in which the request must end
        await wire.send(WHOLE)
        assert await wire.answer() == b"HTTP/1.1 200 OK"


async def test_an_empty_line_does_not_stop_the_keep_alive_timeout(dsn: str) -> None:
    async with serving(dsn, idle_s=0.2) as api, connected(api) as wire:
        await wire.send(WHOLE)
        assert await wire.answer() == b"HTTP/1.1 200 OK"
        await wire.send(b"\r\n")
        assert await wire.closed() == b""


async def test_a_client_that_stops_reading_loses_its_connection(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_S", 0.2)
    await query(dsn, LONG_RECORDS)
    async with connected(api) as wire:
        wire.transport.pause_reading()
        await wire.send(FOLLOWING)
        await eventually(lambda: api.gateway.wait_limits.streams.in_use == 1)
        await eventually(lambda: api.gateway.wait_limits.streams.in_use == 0)
