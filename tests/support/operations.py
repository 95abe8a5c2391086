"""Bulk operations: their callers, their rows, and two gateways."""

from __future__ import annotations

from shardclock_server.service.operations import Actor
from tests.support.factories import query, value
from tests.support.waiting import eventually


def an_operator() -> Actor:
    """Return the caller of one bulk change at the command line."""
    return Actor("cli", by_operator=True)


async def ends_of(dsn: str) -> list[tuple[str, str, int, int]]:
    """Wait until all operations have ended; return their verbs, states, and numbers of found and changed rows."""

    async def have_ended() -> bool:
        return bool(await value(dsn, "select count(*) filter (where ended_at is null) = 0 from shardclock.operations"))

    await eventually(have_ended)
    asked = "select verb, state, matched, changed from shardclock.operations order by operation_id"
    return [(row["verb"], row["state"], row["matched"], row["changed"]) for row in await query(dsn, asked)]
