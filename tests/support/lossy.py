"""Two servers between a client and a gateway: a proxy that loses answers, and a server with scripted answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CHUNK_BYTES = 65_536
HEAD_END = b"\r\n\r\n"


@dataclass
class LossyProxy:
    """Pass connections on to a gateway; lose the next `to_lose` answers, after the gateway has got their requests."""

    upstream: str
    to_lose: int = 0
    lost: int = 0
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        parts = urlsplit(self.upstream)
        try:
            there, back = await asyncio.open_connection(parts.hostname, parts.port)
        except OSError:
            writer.close()
            return
        tasks = [asyncio.create_task(self._requests(reader, back)), asyncio.create_task(self._answers(there, writer))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, back):
            end.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self.to_lose:
                self.to_lose -= 1
                self.lost += 1
                return
            writer.write(data)
            with suppress(ConnectionError):
                await writer.drain()


@asynccontextmanager
async def losing(upstream: str, *, answers: int) -> AsyncIterator[LossyProxy]:
    proxy = LossyProxy(upstream, answers)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        proxy.url = url_of(server)
        yield proxy
    finally:
        server.close()


@dataclass
class Stub:
    """Give the answers in order, then repeat the last answer; keep the requests."""

    answers: Sequence[bytes]
    url: str = ""
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(HEAD_END)).decode()
            lengths = [line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length:")]
            self.bodies.append(await reader.readexactly(int(lengths[0]) if lengths else 0))
            self.heads.append(head)
            writer.write(self.answers[min(len(self.heads), len(self.answers)) - 1])
            await writer.drain()
        writer.close()


def raw(status: int, body: str = "", media_type: str = "application/json", **headers: str) -> bytes:
    """Write an answer in the form of HTTP; an underscore in a header's name stands for a hyphen."""
    given = {"Content-Type": media_type, "Content-Length": str(len(body.encode())), "Connection": "close"}
    given |= {name.replace("_", "-"): text for name, text in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {text}" for name, text in given.items()), "", body]
    return "\r\n".join(lines).encode()


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[Stub]:
    """Run a server with scripted answers; an empty answer closes the connection."""
    stub = Stub(answers)
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    try:
        stub.url = url_of(server)
        yield stub
    finally:
        server.close()


def url_of(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
