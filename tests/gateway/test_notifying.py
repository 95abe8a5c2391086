"""Test that a notification wakes engines or shards when new work for them is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shardclock_server.sql.claims.notifications import DUE
from shardclock_server.sql.deliveries.notifications import SIGNALS
from tests.support import ROOT
from tests.support.factories import BOUND_S, value
from tests.support.gateways import Api

MODEL = (ROOT / "examples" / "order.bpmn").read_bytes()


@asynccontextmanager
async def hearing(dsn: str, channel: str) -> AsyncIterator[asyncio.Queue[object]]:
    """Collect the notifications of a channel during a block, with a time limit."""
    heard: asyncio.Queue[object] = asyncio.Queue()
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    await connection.add_listener(channel, lambda *_: heard.put_nowait(None))
    try:
        async with asyncio.timeout(BOUND_S):
            yield heard
    finally:
        await connection.close(timeout=BOUND_S)


async def test_a_committed_start_over_http_notifies_engines(api: Api, dsn: str) -> None:
    async with hearing(dsn, SIGNALS) as heard:
        await api.deploy(MODEL)
        await heard.get()

        await api.post("/v1/processes/order/start", {})
        await heard.get()

        await api.post("/v1/processes/order/start", {})
        await heard.get()
        assert heard.empty(), "one notification for each"
    assert await value(dsn, "select count(*) from shardclock.deliveries where target = 'process:instance'") == 2


async def test_only_a_timer_that_is_due_at_once_notifies_shards(api: Api, dsn: str) -> None:
    async with hearing(dsn, DUE) as heard:
        later = await api.post("/v1/timers", {"delay": "PT1H", "name": "later"})
        await api.post("/v1/timers", {"delay": "PT0S"})
        await heard.get()
        assert heard.empty(), "none for the one before it"

        await api.post_lines({"delay": "PT1H"}, {"delay": "PT0S"})
        await heard.get()

        key = later.json["timer_key"]
        await api.patch(f"/v1/timers/{key}", {"delay": "PT2H"})
        await api.post(f"/v1/timers/{key}/pause", {})
        for verb, path, body in (
            ("POST", "resume", {}),
            ("PATCH", "", {"delay": "PT0S"}),
            ("POST", "run", {}),
        ):
            await api.ask(verb, f"/v1/timers/{key}/{path}".rstrip("/"), body)
            await heard.get()
            assert heard.empty(), "one notification for each, and none for those before"
