"""Measure the lag of the event loop, and count the API keys that expire soon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from shardclock_server.gateway.families import LOOP_EDGES
from shardclock_server.keepers.loops import upkeep
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.sql.keys.keys import EXPIRES_SOON, count_expiring
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StatementRefused, StoreUnavailable

TICK_S = 0.1
KEYS_S = 60.0  # the time between two counts of keys; the alert comes two weeks before a key expires


@dataclass(slots=True)
class Measurements:
    """The measurements since the start: the loop's lag, and the last count of keys (None: unknown)."""

    loop_lag: Buckets = field(default_factory=partial(Buckets, LOOP_EDGES))
    keys_expiring: int | None = None


class _LoopLag:
    """Record, every `TICK_S`, how late the event loop runs `turn`."""

    def __init__(self, lag: Buckets) -> None:
        self._lag = lag
        self._clock = asyncio.get_running_loop().time
        self._due_s = self._clock()

    async def turn(self) -> float:
        now_s = self._clock()
        self._lag.add(max(0.0, now_s - self._due_s))
        self._due_s = now_s + TICK_S
        return TICK_S


@asynccontextmanager
async def measuring(pool: Pool) -> AsyncIterator[Measurements]:
    """Measure during a `with` block; `pool` must not be the pool of the requests."""
    measurements = Measurements()
    async with (
        upkeep("loop lag", _LoopLag(measurements.loop_lag).turn),
        upkeep("expiring keys", partial(_count_keys, measurements, pool)),
    ):
        yield measurements


async def _count_keys(measurements: Measurements, pool: Pool) -> float:
    try:
        async with pool.session(NO_TENANTS) as session:
            measurements.keys_expiring = await count_expiring(session, EXPIRES_SOON)
    except (StoreUnavailable, StatementRefused):
        measurements.keys_expiring = None  # another alert reports the outage of Postgres
    return KEYS_S
