"""Timers over HTTP: how many a second one gateway creates, one by one and in lines, and how long one takes."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

import psutil

from benchmarks.cases.case import Case, Figure, Figures, Part
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import Ours
from cluster.gateway import MODULE

CONNECTIONS, SECONDS = 64, 8.0
PACED_PER_S, PACED_S = 500, 10.0
LINES, REQUESTS, BULK_CONNECTIONS = 10_000, 20, 2
BODY = json.dumps({"delay": "PT24H", "payload": {"order": 4711}}).encode()
READY_S = 30.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
SERVES = re.compile(rb"HTTP API at (http://\S+?),")


class Gateway(Ours):
    """One gateway process, without keys; the clients are the benchmark's own process."""

    name, settings = "Shardclock, one gateway", "as shipped, without API keys"

    def __init__(self) -> None:
        super().__init__()
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = "", 0

    async def start(self) -> None:
        """Start it, on any free port."""
        settings = {"SHARDCLOCK_DSN": self.dsn, "SHARDCLOCK_GATEWAY_PORT": "0"}
        with tempfile.TemporaryFile() as said:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stderr=said,
                env=os.environ | settings,
            )
            deadline = time.monotonic() + READY_S
            while not (found := SERVES.search(os.pread(said.fileno(), 10_000, 0))):
                assert time.monotonic() < deadline, "the gateway did not start"
                await asyncio.sleep(0.05)
        url = urlsplit(found[1].decode())
        assert url.hostname is not None
        assert url.port is not None
        self.host, self.port = url.hostname, url.port

    async def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(READY_S)
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def processes(self) -> list[psutil.Process]:
        """Return the gateway."""
        return [] if self._process is None else [psutil.Process(self._process.pid)]


class Connection:
    """A kept-open connection to a gateway, with as little of HTTP as the answers need."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, gateway: Gateway) -> "Connection":
        """Open one."""
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

    async def create(self) -> None:
        """Create one timer."""
        status = await self.post("/v1/timers", "application/json", BODY)
        assert status == 201, status

    def close(self) -> None:
        """Close it."""
        self._writer.close()


async def measure(contender: Contender) -> Figures:
    """Create one by one as fast as it goes, then at a pace, then by lines."""
    assert isinstance(contender, Gateway)
    await contender.start()
    return {
        "creates": await _creates_per_s(contender),
        **await _paced(contender),
        "lines": await _lines_per_s(contender),
    }


async def _creates_per_s(gateway: Gateway) -> float:
    created, begun_s = 0, time.perf_counter()

    async def keep_on() -> None:
        nonlocal created
        connection = await Connection.to(gateway)
        while time.perf_counter() < begun_s + SECONDS:
            await connection.create()
            created += 1
        connection.close()

    await asyncio.gather(*(keep_on() for _ in range(CONNECTIONS)))
    return created / (time.perf_counter() - begun_s)


async def _paced(gateway: Gateway) -> Figures:
    """Send at fixed moments, whether or not earlier answers have come; a late send counts as lateness."""
    free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    took_s: list[float] = []
    begin_s = time.perf_counter() + 0.5

    async def one(at_s: float) -> None:
        await asyncio.sleep(at_s - time.perf_counter())
        connection = await Connection.to(gateway) if free.empty() else free.get_nowait()
        await connection.create()
        took_s.append(time.perf_counter() - at_s)
        free.put_nowait(connection)

    await asyncio.gather(*(one(begin_s + number / PACED_PER_S) for number in range(round(PACED_PER_S * PACED_S))))
    while not free.empty():
        free.get_nowait().close()
    took_s.sort()
    return {"p50": took_s[len(took_s) // 2], "p99": took_s[len(took_s) * 99 // 100]}


async def _lines_per_s(gateway: Gateway) -> float:
    body, left, begun_s = b"\n".join([BODY] * LINES), REQUESTS, time.perf_counter()

    async def keep_on() -> None:
        nonlocal left
        connection = await Connection.to(gateway)
        while left > 0:
            left -= 1
            status = await connection.post("/v1/timers/bulk", "application/x-ndjson", body)
            assert status == 200, status
        connection.close()

    await asyncio.gather(*(keep_on() for _ in range(BULK_CONNECTIONS)))
    return REQUESTS * LINES / (time.perf_counter() - begun_s)


CASE = Case(
    "rest",
    "Timers over HTTP",
    f"One gateway, Postgres and the clients on the same cores. {CONNECTIONS} connections create timers one after the"
    f" other; then {PACED_PER_S} creates a second, each from when it was to be sent until its answer was read; then"
    f" requests of {LINES:,} lines.",
    (
        Part(
            "Timers created a second",
            (
                Figure("creates", "one by one", "cps", more_is_better=True),
                Figure("lines", f"{LINES:,} lines a request", "cps", more_is_better=True),
            ),
        ),
        Part(
            f"A create, at {PACED_PER_S} a second", (Figure("p50", "p50", "s"), Figure("p99", "p99", "s")), key="paced"
        ),
    ),
    lambda: [Gateway()],
    measure,
)
