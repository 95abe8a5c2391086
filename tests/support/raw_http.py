"""Send requests over a socket: HTTP clients write no duplicate headers, and no forbidden characters."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from tests.support.factories import BOUND_S

Pairs = tuple[tuple[bytes, bytes], ...]
LOCAL: Pairs = ((b"Host", b"localhost"),)


@dataclass(frozen=True)
class RawAnswer:
    """All bytes that a server sent before it closed the connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def detail(self) -> str:
        """Return the sentence of a problem."""
        said: dict[str, Any] = json.loads(self.body)
        return str(said["detail"])


async def ask_raw(
    url: str, method: str, path: str, *, headers: Pairs = (), body: bytes = b"", host: Pairs = LOCAL
) -> RawAnswer:
    """Send one request to a server, and read until the server closes the connection."""
    ends: Pairs = ((b"Connection", b"close"),)
    length: Pairs = ((b"Content-Length", str(len(body)).encode()),) if body else ()
    lines = [name + b": " + value for name, value in (*host, *headers, *length, *ends)]
    return await exchange(url, b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *lines, b"", body]))


async def exchange(url: str, request: bytes) -> RawAnswer:
    """Send these bytes to a server, and read until the server closes the connection."""
    address, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    try:
        writer.write(request)
        async with asyncio.timeout(BOUND_S):
            came = await reader.read()
    finally:
        writer.transport.abort()
    head, _, rest = came.partition(b"\r\n\r\n")
    status, *said = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in said)
    return RawAnswer(int(status.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}, rest)
