"""Prove that a page ends at its limit of payload bytes, and that the pages together have all rows."""

from __future__ import annotations

import pytest

from shardclock_server.sql.clients.search import PageLimits, TimerFilter, find_timers
from shardclock_server.sql.log.records import read_own
from tests.support.factories import add_timers, query
from tests.support.sql_client import session as session_of

OURS = frozenset({"acme"})
TIMERS = 7
PAYLOAD = "to_jsonb(repeat('ä', 20))"  # 42 bytes as JSON text
PAUSE = "select shardclock.pause_timer(timer_key) from shardclock.timers"
CANCEL = "select shardclock.cancel_timer(timer_key) from shardclock.timers"
STATES = {"PENDING": [], "PAUSED": [PAUSE], "CANCELED": [CANCEL], "ENDED": [CANCEL]}


async def made(dsn: str, *statements: str) -> None:
    """Make timers with payloads of 42 bytes each, and one timer without a payload."""
    await add_timers(dsn, TIMERS, "now() + interval '1 hour'", tenant_id="'acme'", payload=PAYLOAD)
    await add_timers(dsn, 1, "now() + interval '2 hours'", tenant_id="'acme'")
    for statement in statements:
        await query(dsn, statement)


@pytest.mark.parametrize(("payload_bytes", "most"), [(1, 1), (42, 1), (43, 2), (100, 3), (10_000, TIMERS + 1)])
@pytest.mark.parametrize("state", STATES)
async def test_pages_of_timers_end_at_their_limit_of_bytes_and_have_each_timer_once(
    dsn: str, state: str, payload_bytes: int, most: int
) -> None:
    await made(dsn, *STATES[state])
    found: list[int] = []
    page, pages = None, 0
    async with session_of(dsn, "gateway") as session:
        session.serve(OURS)
        while pages == 0 or page is not None:
            part = await find_timers(
                session,
                state,
                TimerFilter(tenant_id="acme"),
                size=1_000,
                page=page,
                limits=PageLimits(payload_bytes=payload_bytes),
            )
            assert len(part.timers) <= most + 1  # the timer without a payload
            found += [timer.timer_key for timer in part.timers]
            page, pages = part.next, pages + 1
    assert len(found) == len(set(found)) == TIMERS + 1
    assert pages >= (TIMERS + 1) / (most + 1)


@pytest.mark.parametrize(("bytes_max", "most"), [(1, 1), (300, 2), (600, 3), (100_000, TIMERS + 1)])
async def test_pages_of_the_log_end_at_their_limit_of_bytes_and_have_each_record_once(
    dsn: str, bytes_max: int, most: int
) -> None:
    await made(dsn, CANCEL)
    found: list[int] = []
    position, last = 0, -1
    async with session_of(dsn, "gateway") as session:
        session.serve(OURS)
        while position > last:
            last = position
            page = await read_own(session, position, bytes_max=bytes_max)
            assert len(page.records) <= most
            found += [record.position for record in page.records]
            position = page.next
    assert len(found) == len(set(found)) == TIMERS + 1
