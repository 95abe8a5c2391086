"""Prove that of many dead letters those that were given up first are found without reading the others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, find_dead_letter_keys
from shardclock_server.sql.session import EACH_TIME
from tests.support.deliveries import bury
from tests.support.factories import query
from tests.support.plans import prepare
from tests.support.sql_client import session as session_of

MANY = 5_000


@pytest.fixture
async def full(each_dsn: str) -> str:
    """Let many die, one second after the other, of which the one with the largest key was the first."""
    await bury(each_dsn, MANY)
    text = "update shardclock.dead_letters set died_at = timestamptz '2031-01-01 00:00Z' - timer_key * interval '1 s'"
    await query(each_dsn, text)
    await query(each_dsn, "analyze shardclock.dead_letters")
    return each_dsn


async def test_a_page_reads_no_more_than_it_gives(full: str) -> None:
    find = await prepare(full, "find_dead_letter_keys", **EACH_TIME)
    behind = f"'2031-01-01 00:00Z'::timestamptz - {MANY // 2} * interval '1 s'"
    nothing = ["null"] * 4

    first = await find.explain(*nothing, "null", "null", "10", touched=True, table="dead_letters")
    later = await find.explain(*nothing, behind, str(MANY // 2), "10", touched=True, table="dead_letters")

    for reading in (first, later):
        assert reading.rows <= 11
        assert reading.indexes == {"dead_letters_in_order"}
    await find.connection.close()


async def test_a_page_begins_behind_the_place_of_the_last_and_ends_before_a_moment(full: str) -> None:
    until = DeadLetterFilter(died_before=datetime(2031, 1, 1, tzinfo=UTC))
    async with session_of(full, "shard") as session:
        first = await find_dead_letter_keys(session, until, limit=2)
        second = await find_dead_letter_keys(session, until, limit=2, after=first[-1].place)
        none = await find_dead_letter_keys(session, DeadLetterFilter(died_before=first[0].died_at), limit=2)

    assert [it.timer_key for it in (*first, *second)] == [MANY, MANY - 1, MANY - 2, MANY - 3]
    assert none == []
