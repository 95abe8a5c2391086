"""Prove that creates that can't be written now are answered now, however many wait."""

from __future__ import annotations

import asyncio

from gateway.combining import BATCH_TIMERS, WRITERS, Combiner
from sql.pool import Pool, PoolEmpty
from sql.session import NO_TENANTS
from timers.model import NewTimer

AWAY = "postgresql://nobody@127.0.0.1:1/none"
HOUR = NewTimer.from_fields({"delay": "PT1H"})


async def test_while_all_sessions_are_in_use_nobody_waits_for_the_batches_before_his() -> None:
    async with (
        Pool(AWAY, application="test", size=1, timeout_s=1.0, wait_s=0.05) as pool,
        pool.session(NO_TENANTS),
        Combiner(pool) as combiner,
    ):
        asked = [combiner.schedule(frozenset({"acme"}), HOUR) for _ in range(10 * BATCH_TIMERS)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {PoolEmpty}
    assert pool.missed <= WRITERS
