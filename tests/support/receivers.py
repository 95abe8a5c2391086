"""Receive webhooks on loopback, with good and bad answers, and keep the requests."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.sender import WebhookMessage
from shardclock_server.webhooks.signing import check_secret

SECRET = "whsec_" + "c2hhcmRjbG9jayBzaGFyZGNsb2NrIHNoYXJkY2xvY2s="
DELIVERY = WebhookMessage("timer_7", b'{"type":"timer.fired"}')
LINGER_NONE = struct.pack("ii", 1, 0)


@dataclass
class Request:
    """One received request."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A receiver's requests."""

    host: str
    port: int = 0
    scheme: str = "http"
    connections: int = 0
    requests: list[Request] = field(default_factory=list)

    def endpoint(
        self, host: str = "", *, timeout_s: float = 5.0, headers: tuple[tuple[str, str], ...] = ()
    ) -> Endpoint:
        """Return an endpoint of this receiver, with the receiver's host name or another name."""
        url = URL(f"{self.scheme}://{host or self.host}:{self.port}/hook")
        return Endpoint(url, headers, (check_secret(SECRET),), timeout_s)


Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def receiving(
    behave: Behave, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Listen on loopback, read each request, and let `behave` answer the request."""
    receiver = Receiver(host, scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                receiver.requests.append(await _request(reader))
                await behave(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(status: str, *headers: str, body: bytes = b"") -> Behave:
    """Answer each request in the same way, and keep the connection."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return saying("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body)


def saying(answer: bytes) -> Behave:

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return behave


async def hanging(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def closing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection without an answer."""
    writer.close()


async def resetting(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
    writer.transport.abort()


def without_end(head: bytes, piece: bytes, *, pause_s: float = 0.0) -> Behave:
    """Send a piece of an answer again and again."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return behave


class Zone(AbstractResolver):
    """Resolve names by a script: each lookup returns the next addresses, and the last addresses are repeated."""

    def __init__(self, **addresses: list[list[str]]) -> None:
        self.addresses = {f"{name}.test": script for name, script in addresses.items()}
        self.asked: list[str] = []

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[ResolveResult]:
        self.asked.append(host)
        if host not in self.addresses:
            raise OSError(None, "no such name")
        script = self.addresses[host]
        found = script.pop(0) if len(script) > 1 else script[0]
        return [_result(host, address, port) for address in found]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return {
        "hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": socket.AI_NUMERICHOST
    }  # fmt: skip


async def _request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(_header(line) for line in head[1:-2])
    return Request(head[0], headers, await reader.readexactly(int(headers.get("content-length", 0))))


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return name.lower(), value
