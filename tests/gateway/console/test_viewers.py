"""Test that many open pages load Postgres no more than a few pages do, and that each page costs a gateway little."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from asyncpg.connection import LoggedQuery

from shardclock_server.gateway.console import live
from shardclock_server.gateway.requests import key_lookups
from shardclock_server.gateway.requests.callers import SESSION_COOKIE
from shardclock_server.gateway.waits import changes
from shardclock_server.service import keys, sign_ins
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.console import Browser
from tests.support.factories import query
from tests.support.gateway_process import gateway_process
from tests.support.gateways import Api
from tests.support.live_pages import CANCEL, CHANGED, next_event
from tests.support.roles import as_role
from tests.support.waiting import eventually

VIEWERS = 500
KIB_EACH, CPU_MS_EACH = 100, 0.5  # the limits of one viewer: KiB received, and processor time a second
MEASURED_S = 5.0


async def statements_of(api: Api, statements: list[LoggedQuery], viewers: int) -> list[str]:
    """Open pages, and return the statements of ten polls, without the gateway's own search for operations."""

    def polls() -> list[str]:
        return [it.query for it in statements if "shardclock.operations" not in it.query]

    async with AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(api.stream("/console/live")) for _ in range(viewers)]
        for pieces in streams:
            await next_event(pieces)
        statements.clear()
        await eventually(lambda: _has(polls(), 10))
        return polls()[:10]


async def _has(things: Sequence[object], number: int) -> bool:
    return len(things) >= number


async def test_the_statements_for_open_pages_do_not_grow_with_their_number(
    statements: list[LoggedQuery], api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((changes, "POLL_S"), (changes, "REFRESH_S"), (live, "EVENT_S")):
        monkeypatch.setattr(module, name, 0.05)

    few = await statements_of(api, statements, 2)
    many = await statements_of(api, statements, 100)

    assert len({*few, *many}) == 1, "the poll of the log's end is the only statement"


async def own_viewers(owner: Session, locked: Api, number: int) -> list[Api]:
    """Sign viewers in with the keys of two tenants; each viewer gets a separate session."""
    made = [await keys.make(owner, WantedKey(tenant, "viewer", ("read",))) for tenant in ("shop", "toys")]
    begun = [await sign_ins.begin(owner, made[n % 2].key) for n in range(number)]
    return [locked.with_headers(Cookie=f"{SESSION_COOKIE}={it.token}") for it in begun]


async def test_the_look_ups_of_sessions_do_not_grow_with_the_number_of_viewers(
    statements: list[LoggedQuery], owner: Session, locked: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "POLL_S", 0.1)
    monkeypatch.setattr(changes, "REFRESH_S", 0.1)
    monkeypatch.setattr(live, "EVENT_S", 0.1)
    monkeypatch.setattr(key_lookups, "KNOWN_S", -1.0)  # In each turn, a viewer's session is read.
    viewers = await own_viewers(owner, locked, 40)

    async with AsyncExitStack() as opened:
        for viewer in viewers:
            await next_event(await opened.enter_async_context(viewer.stream("/console/live")))
        statements.clear()
        await eventually(lambda: _has([it for it in statements if "console_sessions" not in it.query], 10))

    polls = [it for it in statements if "console_sessions" not in it.query]
    # On a busy machine a poll wakes the viewers in a few groups. Without groups each poll makes 40 look-ups.
    assert len(statements) - len(polls) <= 10 * len(polls)


async def test_equal_pages_of_many_viewers_are_rendered_together(
    statements: list[LoggedQuery], browser: Browser
) -> None:
    await asyncio.gather(*(browser.get("/schedules") for _ in range(2)))
    statements.clear()
    await browser.get("/timers?state=paused")
    alone = len(statements)
    statements.clear()
    await asyncio.gather(*(browser.get("/timers?state=triggered") for _ in range(50)))

    # On a busy machine the 50 requests come in a few groups. Without the cache each request reads its own page.
    assert 0 < len(statements) <= 5 * (alone + 1) < 50


@asynccontextmanager
async def viewing(url: str, viewers: int, events: list[int]) -> AsyncIterator[None]:
    """Open streams of events; `events` gets one entry for each event."""
    host, _, port = url.removeprefix("http://").partition(":")
    begun = list[asyncio.StreamWriter]()

    async def view() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /console/live HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert b"200" in await reader.readline()
        begun.append(writer)
        while piece := await reader.read(4_096):
            events.append(piece.count(CHANGED))

    tasks = [asyncio.create_task(view()) for _ in range(viewers)]
    try:
        await eventually(lambda: _has(begun, viewers))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def used(pid: int) -> tuple[float, float]:
    """Return a process's CPU time in milliseconds, and its memory in KiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return 1_000 * ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1_024


@pytest.mark.exhaustive
def test_five_hundred_viewers_cost_a_gateway_little(dsn: str) -> None:
    events = list[int]()

    async def measure(url: str, pid: int) -> tuple[float, float]:
        _, before = used(pid)
        async with viewing(url, VIEWERS, events):
            began_ms, _ = used(pid)
            until_s = time.monotonic() + MEASURED_S
            while time.monotonic() < until_s:
                await query(dsn, CANCEL)
                await asyncio.sleep(0.2)
            cpu_ms, memory = used(pid)
        return (cpu_ms - began_ms) / MEASURED_S / VIEWERS, (memory - before) / VIEWERS

    with gateway_process(as_role(dsn, "gateway")) as (url, process):
        cpu_ms, kib = asyncio.run(measure(url, process.pid))

    assert sum(events) >= VIEWERS * MEASURED_S / 2, "each viewer is told of the changes"
    assert kib <= KIB_EACH
    assert cpu_ms <= CPU_MS_EACH
