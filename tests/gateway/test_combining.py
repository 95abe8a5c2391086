"""Test that a timer that can't be written does not delay other timers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shardclock_server.gateway.combining import BATCH_CHARACTERS, BATCH_TIMERS, WRITERS, Combiner
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.pool import Pool, PoolEmpty
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.timers.model import NewTimer
from tests.support.gateways import Api

AWAY = "postgresql://nobody@127.0.0.1:1/none"
HOUR = {"delay": "PT1H"}


async def test_without_a_free_session_all_queued_timers_fail_at_once() -> None:
    async with (
        Pool(AWAY, application="test", size=1, timeout_s=1.0, wait_s=0.05) as pool,
        pool.session(NO_TENANTS),
        Combiner(pool) as combiner,
    ):
        timer = NewTimer.from_fields(HOUR)
        asked = [combiner.schedule(frozenset({"acme"}), timer) for _ in range(10 * BATCH_TIMERS)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {PoolEmpty}
    assert pool.missed <= WRITERS


async def test_after_a_refusal_by_postgres_the_tenant_has_a_separate_writer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes_of, together = Combiner._outcomes_of, list[set[str]]()

    async def recorded(self: Combiner, batch: ScheduleBatch, wishes: Sequence[Any], patience: Any) -> Any:
        together.append({timer.tenant_id for timer in batch.timers})
        return await outcomes_of(self, batch, list(wishes), patience)

    async def ask(tenant: str, target: str | None) -> int:
        return (await api.post("/v1/timers", {**HOUR, "target": target or "log"}, Shardclock_Tenant=tenant)).status

    assert await ask("acme", "nobodys") == 422
    monkeypatch.setattr(Combiner, "_outcomes_of", recorded)
    asked = [ask("acme", "nobodys" if n % 2 else None) for n in range(20)] + [ask("other", None) for _ in range(20)]
    statuses = await asyncio.gather(*asked)

    assert statuses == 10 * [201, 422] + 20 * [201]
    assert {"acme", "other"} not in together


async def test_a_batch_of_large_payloads_is_small(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes_of, sizes = Combiner._outcomes_of, list[int]()

    async def recorded(self: Combiner, batch: ScheduleBatch, wishes: Sequence[Any], patience: Any) -> Any:
        sizes.append(sum(len(timer.payload or "") for timer in batch.timers))
        return await outcomes_of(self, batch, list(wishes), patience)

    monkeypatch.setattr(Combiner, "_outcomes_of", recorded)
    timer = NewTimer.from_fields({**HOUR, "payload": "x" * 50_000})
    tenants = frozenset({timer.tenant_id})
    await asyncio.gather(*(api.gateway.combiner.schedule(tenants, timer) for _ in range(60)))

    assert sum(sizes) > 2 * BATCH_CHARACTERS
    assert max(sizes) < BATCH_CHARACTERS + 60_000
