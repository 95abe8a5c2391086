"""Test that a blocked event loop is measured, and that keys which expire soon are counted."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.gateway.families import LOOP_EDGES
from shardclock_server.gateway.upkeep import measuring
from shardclock_server.gateway.upkeep.measuring import measuring as watch
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.sql.keys.keys import Proof, WantedKey, make_key
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import parse_duration
from tests.support.roles import as_role
from tests.support.waiting import eventually

AWAY = "postgresql://nobody@127.0.0.1:1/none"


def looking(dsn: str) -> Pool:
    """Open a pool as a gateway's health check does."""
    return Pool(dsn, application="test", size=1, timeout_s=1.0, wait_s=1.0)


@pytest.mark.parametrize("at", ["between two turns", "while it waits"])
async def test_a_blocked_event_loop_is_measured(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, add = asyncio.get_running_loop(), Buckets.add
    still_s = iter([0.5])  # the loop blocks only once

    def added(lag: Buckets, duration_s: float) -> None:
        add(lag, duration_s)
        for for_s in still_s:
            if at == "between two turns":
                loop.call_soon(time.sleep, for_s)
            else:
                loop.call_later(measuring.TICK_S / 2, time.sleep, for_s)

    monkeypatch.setattr(Buckets, "add", added)
    async with looking(AWAY) as pool, watch(pool) as measurements:
        above = LOOP_EDGES.index(0.25) + 1
        await eventually(lambda: sum(measurements.loop_lag.counts[above:]) >= 1)


async def test_keys_that_expire_soon_are_counted(dsn: str, owner: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "KEYS_S", 0.01)
    wanted = WantedKey("acme", "webshop", ("read",), parse_duration("P90D"))
    async with looking(as_role(dsn, "gateway")) as pool, watch(pool) as measurements:
        await eventually(lambda: measurements.keys_expiring == 0)
        await make_key(owner, wanted, Proof("aaaaaaaa", 32 * b"a"), now=datetime.now(UTC) - timedelta(days=80))

        await eventually(lambda: measurements.keys_expiring == 1)


async def test_without_postgres_no_count_is_reported() -> None:
    async with looking(AWAY) as pool, watch(pool) as measurements:
        await eventually(lambda: sum(measurements.loop_lag.counts) >= 1)
        assert measurements.keys_expiring is None
