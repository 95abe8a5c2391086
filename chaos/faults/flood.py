"""Flood the cluster with timers, and write timers that can't be fired."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from chaos.faults.fault import BACK_S, Hit, Injection
from chaos.history.calls import Call, TimerRequest
from chaos.sandbox import Sandbox
from chaos.waiting import until

HERD = 100_000
HERD_TENANT = "herd"
OVERLOAD_PER_S = 2_000
TICKS_A_S = 10


def overload(*, tenant_id: str, per_s: int) -> Injection:
    """Schedule more timers than the cluster can fire for a while, all due immediately; wait until all have fired."""

    async def inject(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
        calls: list[Call] = []
        began_at = time.time()
        async with sandbox.admin() as admin:
            for tick in range(int(for_s * TICKS_A_S)):
                await asyncio.sleep(began_at + tick / TICKS_A_S - time.time())
                rows = await admin.fetch(
                    "insert into shardclock.timers (due_date, tenant_id) select now(), $1"
                    " from generate_series(1, $2::integer) returning timer_key, due_date",
                    tenant_id,
                    per_s // TICKS_A_S,
                )
                timers = [TimerRequest(row["timer_key"], due_date=row["due_date"]) for row in rows]
                calls.append(_call(tenant_id, began_at + tick / TICKS_A_S, timers))
        await _until_gone(sandbox, tenant_id, within_s=4 * for_s + BACK_S)
        return Hit(began_at=began_at, ended_at=time.time(), calls=tuple(calls))

    return inject


async def herd(sandbox: Sandbox, _: random.Random, __: float) -> Hit:
    """Schedule 100,000 timers of one tenant, all due at the same instant."""
    at = datetime.now(UTC) + timedelta(seconds=4)
    called_at = time.time()
    async with sandbox.admin() as admin:
        rows = await admin.fetch(
            "insert into shardclock.timers (due_date, tenant_id) select $1, $2 from generate_series(1, $3::integer)"
            " returning timer_key",
            at,
            HERD_TENANT,
            HERD,
        )
    call = _call(HERD_TENANT, called_at, [TimerRequest(row["timer_key"], due_date=at) for row in rows])
    await _until_gone(sandbox, HERD_TENANT, within_s=BACK_S)
    return Hit(began_at=at.timestamp(), ended_at=time.time(), detail={"tenant": HERD_TENANT}, calls=(call,))


def _call(tenant_id: str, began_at: float, timers: Sequence[TimerRequest]) -> Call:
    """Add timers of a fault to the recording, as one call of a client; the call gets a unique number."""
    return Call(-timers[0].timer_key, "schedule", tenant_id, began_at, time.time(), "ok", timers=timers)


async def _until_gone(sandbox: Sandbox, tenant_id: str, *, within_s: float) -> None:
    async def gone() -> bool:
        async with sandbox.admin() as admin:
            text = "select not exists (select from shardclock.timers where tenant_id = $1)"
            return bool(await admin.fetchval(text, tenant_id))

    await until(gone, within_s=within_s)


async def poison(sandbox: Sandbox, _: random.Random, __: float) -> Hit:
    """Write schedules that no shard can fire: one with an invalid rule, and one with a rule without occurrences."""
    name = f"poison {time.time():.3f}"
    async with sandbox.admin() as admin:
        rows = await admin.fetch(
            # Insert the rows directly, because the product's functions refuse rules without occurrences. No shard has
            # planned the rows yet.
            "insert into shardclock.timers (due_date, schedule, anchor, anchor_occurrence, name, repetitions)"
            " select now(), rule, now(), null, $1 || kind, -1"
            " from (values ('R/often', ' unreadable'), ('0 0 30 2 *', ' never')) as poison (rule, kind)"
            " returning timer_key",
            name,
        )
    return Hit(poisoned=frozenset(row["timer_key"] for row in rows))
