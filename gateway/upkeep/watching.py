"""Watch what no request tells: whether the event loop stands still, and how many API keys expire soon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from shardclock_server.gateway.families import LOOP_EDGES
from shardclock_server.keepers.loops import upkeep
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.sql.keys.keys import count_expiring
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StatementRefused, StoreUnavailable
from shardclock_server.timers.duration import parse_duration

TICK_S = 0.1
KEYS_S = 60.0  # between two looks for keys: the alert about them has two weeks
SOON = parse_duration("P14D")


@dataclass(slots=True)
class Watched:
    """What was seen since the start: how late the loop was, and the last count of keys, None if there is none."""

    loop_lag: Buckets = field(default_factory=partial(Buckets, LOOP_EDGES))
    keys_expiring: int | None = None


class _LoopLag:
    """Measure how late each turn comes. The next is due `TICK_S` after this one began: no stall falls between two."""

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
async def watching(pool: Pool) -> AsyncIterator[Watched]:
    """Watch during a block; `pool` is not the requests' own, which they need whole."""
    watched = Watched()
    async with (
        upkeep("loop lag", _LoopLag(watched.loop_lag).turn),
        upkeep("expiring keys", partial(_count_keys, watched, pool)),
    ):
        yield watched


async def _count_keys(watched: Watched, pool: Pool) -> float:
    try:
        async with pool.session(NO_TENANTS) as session:
            watched.keys_expiring = await count_expiring(session, SOON)
    except (StoreUnavailable, StatementRefused):
        watched.keys_expiring = None  # other alerts say that Postgres is away
    return KEYS_S
