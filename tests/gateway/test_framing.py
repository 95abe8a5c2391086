"""Test that the gateway reads the body that a client has sent, or says why it can't."""

from __future__ import annotations

import json

import pytest

from tests.support.factories import pending_rows
from tests.support.gateways import Api
from tests.support.raw_http import exchange

POST = b"POST /v1/timers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"delay":"PT1H","name":"n"}'
IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
SIZED = b"Content-Length: %d\r\n" % len(BODY)
# The headers of the first request of Java's HTTP client, and of a request with another protocol.
UPGRADES = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQB\r\n",
    b"Connection: upgrade\r\nUpgrade: websocket\r\n",
]
AND_LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("upgrade", UPGRADES, ids=["h2c", "websocket"])
@pytest.mark.parametrize("framed", [SIZED + b"\r\n" + BODY, CHUNKED + b"\r\n" + IN_CHUNKS], ids=["sized", "chunked"])
async def test_a_request_that_offers_another_protocol_has_its_body(
    dsn: str, api: Api, upgrade: bytes, framed: bytes
) -> None:
    said = await exchange(api.url, POST + upgrade + framed + AND_LAST)

    assert said.status == 201, said
    assert [timer["name"] for timer in await pending_rows(dsn)] == ["n"]
    assert b"HTTP/1.1 200 OK" in said.body, "the next request of the connection has its answer, too"


@pytest.mark.parametrize("framed", [SIZED + b"\r\n" + BODY, CHUNKED + b"\r\n" + IN_CHUNKS], ids=["sized", "chunked"])
async def test_a_request_that_offers_another_protocol_and_ends_its_connection_has_its_body(
    dsn: str, api: Api, framed: bytes
) -> None:
    closing = b"Connection: upgrade, close\r\nUpgrade: websocket\r\n"
    said = await exchange(api.url, POST + closing + framed + b"neither a request nor a body")

    assert said.status == 201, said
    assert [timer["name"] for timer in await pending_rows(dsn)] == ["n"]


async def test_an_old_request_that_offers_another_protocol_has_its_body(dsn: str, api: Api) -> None:
    said = await exchange(api.url, POST.replace(b"HTTP/1.1", b"HTTP/1.0") + UPGRADES[1] + SIZED + b"\r\n" + BODY)

    assert said.status == 201, said
    assert [timer["name"] for timer in await pending_rows(dsn)] == ["n"]


async def test_many_requests_that_offer_another_protocol_are_all_answered(api: Api) -> None:
    bare = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + UPGRADES[0] + b"\r\n"
    said = await exchange(api.url, bare * 300 + AND_LAST)
    assert said.body.count(b"HTTP/1.1 200 OK") == 300


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\n" + BODY,
        b"-1\r\n",
        b"5\r\n" + IN_CHUNKS,
        b"0x1b\r\n" + BODY + b"\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\n",
        b"1b\r\n" + BODY + b"xx0\r\n\r\n",
        IN_CHUNKS.replace(b"0\r\n\r\n", b"0\r\nbad trailer\r\n\r\n"),
    ],
    ids=["no-number", "negative", "too-short", "0x", "huge", "no-line-end", "bad-trailer"],
)
@pytest.mark.parametrize("path", [b"/v1/timers", b"/v1/nothing"])
async def test_a_malformed_chunk_is_refused_with_the_reason(dsn: str, api: Api, path: bytes, chunks: bytes) -> None:
    said = await exchange(api.url, POST.replace(b"/v1/timers", path) + CHUNKED + b"\r\n" + chunks)

    assert (said.status, json.loads(said.body)["type"]) == (400, "urn:shardclock:problem:unreadable")
    assert said.detail.startswith("the request is not HTTP/1.1: ")
    assert await pending_rows(dsn) == []


@pytest.mark.parametrize(
    "coding", ["gzip, chunked", "x, chunked", "deflate", "xchunked", "gzip\r\nTransfer-Encoding: chunked"]
)
async def test_a_transfer_coding_other_than_chunked_is_refused(dsn: str, api: Api, coding: str) -> None:
    said = await exchange(api.url, POST + f"Transfer-Encoding: {coding}\r\n\r\n".encode() + IN_CHUNKS)
    assert said.status == 400, said
    assert "transfer-encoding" in said.detail.lower()
    assert await pending_rows(dsn) == []


@pytest.mark.parametrize("target", ["http://localhost", "http://localhost?limit=1", "localhost:80"])
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
async def test_a_request_target_without_a_path_is_refused(api: Api, method: str, target: str) -> None:
    said = await exchange(api.url, f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert (said.status, said.detail) == (400, "the request target has no path; write it like /v1/timers")
