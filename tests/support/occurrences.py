"""Plan and fire the schedules of a test step by step, and read their occurrences."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shardclock_server.shards.firing import firing_of, is_unplanned, planning_of
from shardclock_server.sql.firing.fire import plan_schedules
from tests.support.factories import HolderClient, query


async def serve(shard: HolderClient, at: datetime | None = None) -> None:
    """Plan and fire the due timers, by Postgres's clock or at a given moment, until no timer is due."""
    shard.now = at
    while timers := (await shard.take(horizon_s=0.0)).claimed:
        now = at or await shard.value("select now()")
        unplanned = [timer for timer in timers if is_unplanned(timer)]
        await plan_schedules(shard.session, shard.holder, [planning_of(timer) for timer in unplanned])
        await shard.send([firing_of(timer, now) for timer in timers if timer not in unplanned])
    shard.now = None


async def numbers(dsn: str) -> list[tuple[str, int]]:
    text = "select intent, occurrence from shardclock.command_log where intent <> 'RESCHEDULED' order by position"
    return [(found["intent"], found["occurrence"]) for found in await query(dsn, text)]


async def row(dsn: str) -> dict[str, Any]:
    (found,) = await query(dsn, "select * from shardclock.timers")
    return dict(found)
