"""Schedule one timer in both ways: by the SQL function, and in a batch."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.timers.model import NewTimer
from tests.support.factories import HolderClient

Ask = Callable[..., Awaitable[tuple[int, str]]]


async def by_sql(hand: HolderClient, **fields: Any) -> tuple[int, str]:
    given = {"name": "n", "delay": "PT1H"} | fields
    if given.keys() & {"due_date", "schedule"}:
        del given["delay"]
    if "due_date" in given:
        given["due_date"] = datetime.fromisoformat(given["due_date"])
    if "payload" in given:
        given["payload"] = json.dumps(given["payload"])
    named = ", ".join(f"{name} => ${number}" for number, name in enumerate(given, 1))
    async with hand.session.connection() as connection:
        row = await connection.fetchrow(
            f"select timer_key, outcome from shardclock.ensure_timer({named})", *given.values()
        )
    assert row is not None
    return row["timer_key"], row["outcome"]


async def by_batch(hand: HolderClient, **fields: Any) -> tuple[int, str]:
    (outcome,) = await ScheduleBatch([timer(**fields)]).send(hand.session)
    assert isinstance(outcome, Scheduled), outcome
    return outcome.timer_key, outcome.outcome


def timer(**fields: Any) -> NewTimer:
    when = {} if fields.keys() & {"due_date", "schedule"} else {"delay": "PT1H"}
    return NewTimer.from_fields({"name": "n", **when, **fields})
