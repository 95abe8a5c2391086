"""Shardclock over HTTP: one gateway process, and minimal HTTP clients."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self
from urllib.parse import urlsplit

import psutil

from benchmarks.contenders.handlers import WithHandler
from benchmarks.contenders.ours import Ours
from shardclock_server.cluster.gateway import MODULE

READY_S = 30.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
SERVES = re.compile(rb"HTTP API at (http://\S+?),")
JSON = "application/json"


class Gateway:
    """A gateway process without API keys on any free port; it exits when its standard input is closed."""

    def __init__(self, dsn: str) -> None:
        with tempfile.TemporaryFile() as said:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stderr=said,
                env=os.environ | {"SHARDCLOCK_DSN": dsn, "SHARDCLOCK_GATEWAY_PORT": "0"},
            )
            deadline = time.monotonic() + READY_S
            while not (found := SERVES.search(os.pread(said.fileno(), 10_000, 0))):
                assert time.monotonic() < deadline, "the gateway did not start"
                time.sleep(0.05)
        url = urlsplit(found[1].decode())
        assert url.hostname is not None
        assert url.port is not None
        self.host, self.port = url.hostname, url.port

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(READY_S)
        assert self.process.stdin is not None
        self.process.stdin.close()


class Connection:
    """A persistent connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, gateway: Gateway) -> Self:
        """Open a connection."""
        return cls(*await asyncio.open_connection(gateway.host, gateway.port, limit=ANSWER_BYTES_MAX))

    async def post(self, path: str, media_type: str, body: bytes) -> int:
        """Send a request, read its answer, and return the status."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media_type}\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", answer)
        assert length is not None, answer
        await self._reader.readexactly(int(length[1]))
        return int(answer[9:12])

    async def create(self, body: bytes) -> None:
        """Create one timer."""
        status = await self.post("/v1/timers", JSON, body)
        assert status == 201, status

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def create_at_pace(gateway: Gateway, per_s: float, seconds: float, body_at: Callable[[], bytes]) -> list[float]:
    """Send requests at fixed times, without waiting for the responses to earlier requests.

    shape: the seconds from the planned time of each request until its response was read, ascending; a request that is
           sent late includes its delay
    """
    free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    took_s: list[float] = []
    begin_s = time.perf_counter() + 0.5

    async def one(at_s: float) -> None:
        await asyncio.sleep(at_s - time.perf_counter())
        connection = await Connection.to(gateway) if free.empty() else free.get_nowait()
        await connection.create(body_at())
        took_s.append(time.perf_counter() - at_s)
        free.put_nowait(connection)

    await asyncio.gather(*(one(begin_s + number / per_s) for number in range(round(per_s * seconds))))
    while not free.empty():
        free.get_nowait().close()
    return sorted(took_s)


class OverHttp(Ours):
    """One gateway without a shard."""

    name, settings = "Shardclock, one gateway", "as shipped, without API keys"

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.gateway: Gateway

    async def start(self) -> None:
        """Start the gateway."""
        self.gateway = await asyncio.to_thread(Gateway, self.dsn)
        self._stack.callback(self.gateway.close)

    async def stop(self) -> None:
        """End the gateway."""
        self._stack.close()

    def processes(self) -> list[psutil.Process]:
        """Return the gateway."""
        return [psutil.Process(self.gateway.process.pid)]


class OverHttpToHandler(WithHandler):
    """One gateway, and a cluster with a handler."""

    def __init__(self) -> None:
        super().__init__("async")
        self.name = "Shardclock, gateway to handler"
        self.settings += "; one gateway without API keys"
        self.gateway: Gateway

    async def start(self) -> None:
        """Start the cluster, and the gateway."""
        await super().start()
        self.gateway = await asyncio.to_thread(Gateway, self.dsn)
        self.kept.callback(self.gateway.close)

    def body(self) -> bytes:
        """Write a request for a timer that is due now; the handler records the request's time as the due date."""
        return json.dumps({"delay": "PT0S", "target": self.target, "payload": {"due": time.time()}}).encode()
