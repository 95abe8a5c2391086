"""Prove that locks are free soon if their process freezes in the middle of a message, even if no cut-off happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from chaos.proxy import Proxy
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.cluster.holders import cut_off
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import BOUND_S, add_holder, add_timers, query
from tests.support.waiting import eventually

HOLDER, OTHER = 0x5AFE, 0xBEEF
FREE = "select timer_key from shardclock.timers for update skip locked"
HELD = """
select from pg_stat_activity
where datname = current_database() and backend_xid is not null and wait_event = 'ClientRead'
"""
SESSIONS = (
    "select application_name as name from pg_stat_activity"
    " where datname = current_database() and application_name like 'shardclock shard %'"
)


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    proxy = Proxy.before(dsn)
    await proxy.start()
    yield proxy
    await proxy.close()


async def _half_sent(dsn: str, proxy: Proxy, session: Session) -> asyncio.Task[object]:
    """Claim ten timers, and freeze the claim's process before it has sent its whole message to Postgres."""
    await add_holder(dsn, HOLDER)
    await add_timers(dsn, 10)
    await session.rows("read_clock")
    trap = proxy.trap(lambda _: True, "claim_due", "inside", spring=lambda _: None)
    task = asyncio.ensure_future(claim_due(session, HOLDER, Scan("own", 0, 100), lease_s=10))
    await trap.caught
    # The locks themselves are checked later: the check locks the rows too, and a claim skips locked rows.
    await eventually(lambda: _is_held(dsn))
    assert await _are_free(dsn, 0)
    return task


async def _is_held(dsn: str) -> bool:
    return len(await query(dsn, HELD)) == 1


async def _are_free(dsn: str, timers: int) -> bool:
    return len(await query(dsn, FREE)) == timers


async def _has_sessions(dsn: str, names: list[str]) -> bool:
    return sorted(row["name"] for row in await query(dsn, SESSIONS)) == sorted(names)


async def test_rows_that_an_incomplete_message_has_locked_are_free_after_the_timeout_of_its_statement(
    dsn: str, proxy: Proxy
) -> None:
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"
    async with Session(through, application="test", timeout_s=2.0) as session:
        # The client stops waiting, and does not tell the server.
        task = await _half_sent(dsn, proxy, session)
        with pytest.raises(StoreUnavailable):
            await task

        await eventually(lambda: _are_free(dsn, 10), within_s=5.0)


async def test_cutting_a_holder_off_frees_its_locks_at_once_and_ends_no_session_of_another(
    dsn: str, proxy: Proxy
) -> None:
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"
    names = [
        f"shardclock shard {use} {holder:016x}" for holder in (HOLDER, OTHER) for use in ("claims", "fires", "beats")
    ]
    async with AsyncExitStack() as stack:
        first, *others = [
            await stack.enter_async_context(Session(through, application=name, timeout_s=BOUND_S)) for name in names
        ]
        for other in others:
            await other.rows("read_clock")
        task = await _half_sent(dsn, proxy, first)

        async with Session(dsn, application="test") as coordinator:
            assert await cut_off(coordinator, [HOLDER]) == 2

        await eventually(lambda: _are_free(dsn, 10), within_s=BOUND_S / 3)
        await eventually(lambda: _has_sessions(dsn, names[2:]))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
