"""Measure the rate at which one gateway creates timers, one by one and in bulk, and the time of one create."""

import asyncio
import json
import time

from benchmarks.cases.case import Case, Figure, Figures, Part
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.gateway import Connection, Gateway, OverHttp, create_at_pace

CONNECTIONS, SECONDS = 64, 8.0
PACED_PER_S, PACED_S = 500, 10.0
LINES, REQUESTS, BULK_CONNECTIONS = 10_000, 20, 2
BODY = json.dumps({"delay": "PT24H", "payload": {"order": 4711}}).encode()


async def measure(contender: Contender) -> Figures:
    """Create timers one by one at full speed, then at a pace, then in bulk requests."""
    assert isinstance(contender, OverHttp)
    await contender.start()
    gateway = contender.gateway
    creates = await _creates_per_s(gateway)
    took_s = await create_at_pace(gateway, PACED_PER_S, PACED_S, lambda: BODY)
    return {
        "creates": creates,
        "p50": took_s[len(took_s) // 2],
        "p99": took_s[len(took_s) * 99 // 100],
        "lines": await _lines_per_s(gateway),
    }


async def _creates_per_s(gateway: Gateway) -> float:
    created, begun_s = 0, time.perf_counter()

    async def keep_on() -> None:
        nonlocal created
        connection = await Connection.to(gateway)
        while time.perf_counter() < begun_s + SECONDS:
            await connection.create(BODY)
            created += 1
        connection.close()

    await asyncio.gather(*(keep_on() for _ in range(CONNECTIONS)))
    return created / (time.perf_counter() - begun_s)


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
    f"One gateway, Postgres and the clients share the cores. Clients first create timers over {CONNECTIONS}"
    f" connections, each connection one timer after the other. Then the clients create {PACED_PER_S} timers a"
    " second; the figure is the time from the planned moment of a request until the client has read the answer. At the"
    f" end the clients send requests of {LINES:,} lines.",
    (
        Part(
            "Timers created per second",
            (
                Figure("creates", "one by one", "cps", more_is_better=True),
                Figure("lines", f"{LINES:,} lines a request", "cps", more_is_better=True),
            ),
        ),
        Part(
            f"A create, at {PACED_PER_S} a second", (Figure("p50", "p50", "s"), Figure("p99", "p99", "s")), key="paced"
        ),
    ),
    lambda: [OverHttp()],
    measure,
)
