"""One rule decides whether a holder is alive: the view of the holders has the same rule as the coordinator."""

from __future__ import annotations

import re
from datetime import timedelta

import asyncpg
import pytest

from shardclock_server.coordinator.settings import CoordinatorSettings
from tests.support import ROOT
from tests.support.factories import add_holder

# Finds a comparison of a heartbeat's age with a limit.
BY_HAND = re.compile(r"\bseen_at\s*[<>]=?\s*now\(\)|\bnow\(\)\s*-\s*\w*\.?seen_at\b")


@pytest.mark.parametrize(("left", "alive"), [(timedelta(microseconds=1), True), (timedelta(0), False)])
async def test_a_holder_is_alive_in_the_view_for_as_long_as_for_a_coordinator(
    each_dsn: str, left: timedelta, *, alive: bool
) -> None:
    await add_holder(each_dsn, 1)
    silent = timedelta(seconds=CoordinatorSettings().silent_s) - left
    connection = await asyncpg.connect(each_dsn)
    try:
        async with connection.transaction():  # now() is constant within this transaction
            await connection.execute("update shardclock.beats set seen_at = now() - $1::interval", silent)
            assert await connection.fetchval("select alive from shardclock.presence") is alive
    finally:
        await connection.close()


def test_no_other_statement_decides_whether_a_holder_is_alive() -> None:
    said = [path.name for path in sorted((ROOT / "sql").rglob("*.sql")) for _ in BY_HAND.findall(path.read_text())]

    assert said == ["0003_cluster.sql"], "the view shardclock.presence"
