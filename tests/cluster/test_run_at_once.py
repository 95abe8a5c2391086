"""A new schedule runs immediately on request: through SQL, the client and HTTP."""

from __future__ import annotations

import psycopg
import pytest

import shardclock.testing
from shardclock.sql import timers

pytestmark = pytest.mark.asyncio
NEW_YEAR = "0 8 1 1 *"


async def fired(sc: shardclock.testing.SteppedCluster) -> list[str]:
    return [record.name or "" for record in await sc.log() if record.intent == "TRIGGERED"]


async def test_a_schedule_runs_at_once_in_sql_in_its_own_transaction_and_in_the_next() -> None:
    async with shardclock.testing.cluster() as sc:
        with psycopg.connect(sc.dsn) as connection:
            timers(connection).schedule(schedule=NEW_YEAR, zone="Europe/Berlin", name="a")
            assert timers(connection).run(name="a").state == "RESCHEDULED"
            timers(connection).schedule(schedule=NEW_YEAR, zone="Europe/Berlin", name="b")
        with psycopg.connect(sc.dsn) as connection:
            assert [timers(connection).run(name="b", operation="o").state for _ in range(2)] == ["RESCHEDULED"] * 2

        await sc.advance("PT1M")

        assert await fired(sc) == ["a", "b"]


async def test_a_schedule_runs_at_once_by_the_client_after_another_rule() -> None:
    async with shardclock.testing.cluster() as sc:
        await sc.client.schedule(schedule="R/P1D", name="a")
        await sc.client.move(name="a", schedule=NEW_YEAR, zone="Europe/Berlin")
        changed = await sc.client.run(name="a", idempotency_key="o")
        again = await sc.client.run(name="a", idempotency_key="o")

        await sc.advance("PT1M")

        assert (changed.state, again.state) == ("RESCHEDULED", "RESCHEDULED")
        assert await fired(sc) == ["a"]
