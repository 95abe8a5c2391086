"""Test that a consumer's TCP connection fails soon after the server's host has vanished, also without an event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from shardclock.log import consume
from tests.support.consumers import append
from tests.support.factories import BOUND_S
from tests.support.roles import as_role
from tests.support.waiting import eventually

READ = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")


@asynccontextmanager
async def over_tcp(dsn: str) -> AsyncIterator[str]:
    """Forward TCP connections to a server's local socket."""
    parts = urlsplit(dsn)
    asked = parse_qs(parts.query)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_unix_connection(f"{asked['host'][0]}/.s.PGSQL.{asked['port'][0]}")
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"


def ways_of(opened: list[Any]) -> dict[str, tuple[bool, Callable[[str], Callable[[], Any]]]]:
    """Map each kind of psycopg connection to (is it awaited, how to open it); `opened` collects the connections."""

    def plain(dsn: str) -> Any:
        opened.append(psycopg.connect(dsn))
        return opened[-1]

    async def awaited(dsn: str) -> Any:
        opened.append(await psycopg.AsyncConnection.connect(dsn))
        return opened[-1]

    return {
        "psycopg": (False, lambda dsn: lambda: plain(dsn)),
        "psycopg_async": (True, lambda dsn: lambda: awaited(dsn)),
    }


@pytest.mark.parametrize("way", ["psycopg", "psycopg_async"])
async def test_a_consumers_connection_probes_the_server(dsn: str, way: str) -> None:
    await append(dsn, 1)
    opened: list[Any] = []
    found: list[int] = []
    is_awaited, connect = ways_of(opened)[way]

    def read(*_: Any) -> None:
        with socket.socket(fileno=os.dup(opened[-1].fileno())) as it:
            found.extend(it.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in READ)
        raise SystemExit

    async def read_awaited(*given: Any) -> None:
        with suppress(SystemExit):
            read(*given)
        raise asyncio.CancelledError

    def run_plain(tcp: str) -> None:
        with suppress(SystemExit):
            consume(connect(tcp), "g", read)

    async with over_tcp(as_role(dsn, "consumer")) as tcp, asyncio.timeout(BOUND_S):
        doing = consume(connect(tcp), "g", read_awaited) if is_awaited else asyncio.to_thread(run_plain, tcp)
        task = asyncio.create_task(doing)
        try:
            await eventually(lambda: bool(found))
        finally:
            if is_awaited:  # a thread ends by itself, and needs the forwarded connection until then
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    assert found[:4] == [5, 1, 4, 9_000]
