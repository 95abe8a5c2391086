"""A walk goes past rows that have fired only in the slots whose turn it is, and nothing is left to chance by that."""

from __future__ import annotations

import asyncpg
import pytest

from sql.claims import Lately, Scope
from tests.store import Hand, add_holder, add_timers, query
from tests.test_sql_plans import prepare, taking
from timers.model import SLOTS

MANY = 20 * SLOTS
STRETCHES = [(0, 1), (17, 5), (800, 100), (839, 1), (0, SLOTS)]


def within(key: int, first: int, slots: int) -> bool:
    return (key % SLOTS - first) % SLOTS < slots


async def fired(dsn: str) -> set[int]:
    return {row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.command_log")}


@pytest.mark.parametrize("scope", ["own", "all"])
@pytest.mark.parametrize(("first", "slots"), STRETCHES)
async def test_what_fell_due_long_ago_is_taken_from_the_slots_whose_turn_it_is(
    each_dsn: str, scope: Scope, first: int, slots: int
) -> None:
    await add_holder(each_dsn, 1)
    lately = await add_timers(each_dsn, 2_000, "now() - interval '0.1 s'")
    old = await add_timers(each_dsn, 4_000, "now() - interval '1 minute'")

    async with Hand(each_dsn, holder=1) as shard:
        taken = await shard.take(
            scope=scope, horizon_s=0, batch=MANY, fuse=True, lately=Lately(30.0, first_slot=first, slots=slots)
        )

    expected = {key for key in old if within(key, first, slots)}
    assert await fired(each_dsn) == expected.union(lately)
    assert taken.fired == len(expected) + len(lately)


async def test_what_the_ramp_holds_back_is_held_back_there_too(dsn: str) -> None:
    await add_holder(dsn, 1)
    old = await add_timers(dsn, 4_000, "now() - interval '5 s'")
    await add_timers(dsn, 4_000, "now() - interval '1 minute'")

    async with Hand(dsn, holder=1) as shard:
        await shard.take(horizon_s=0, batch=MANY, fuse=True, floor_s=10.0, lately=Lately(2.0, 40, 200))

    assert await fired(dsn) == {key for key in old if within(key, 40, 200)}


async def test_while_somebodys_leases_are_free_all_is_looked_at(dsn: str) -> None:
    """What a dead shard had leased may be due for longer than lately, and must not wait for its slot's turn."""
    await add_holder(dsn, 1)
    await add_holder(dsn, 2, None, None)
    leased = {"claimed_by": "2", "claimed_until": "now() + interval '9 s'"}
    old = await add_timers(dsn, 2_000, "now() - interval '1 minute'", **leased)
    lately = Lately(2.0, first_slot=0, slots=0)

    async with Hand(dsn, holder=1) as shard:
        before = await shard.take(horizon_s=0, batch=MANY, fuse=True, lately=lately)
        await query(dsn, "update shardclock.holders set ended_at = now(), ended_why = 'dead' where holder = 2")
        after = await shard.take(horizon_s=0, batch=MANY, fuse=True, lately=lately)

    assert (before.fired, after.fired) == (0, len(old))


async def test_rows_that_have_fired_and_must_stay_are_not_gone_through_each_time(dsn: str) -> None:
    """As long as anybody holds a snapshot from before, no vacuum clears them away."""
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_holder(dsn, 1)
    reader = await asyncpg.connect(dsn)
    await reader.execute("begin isolation level repeatable read")
    await reader.fetchval("select count(*) from shardclock.timers")
    await add_timers(dsn, 50_000, "now() - interval '1 minute'")
    await query(dsn, "delete from shardclock.timers")
    take = await prepare(dsn, "take_due")

    all_the_way = await take.explain(*taking(1, horizon="0 s"))
    lately = await take.explain(*taking(1, horizon="0 s", lately=("'2 s'", 100, 42)))

    await take.connection.close()
    await reader.close()
    assert all_the_way.pages > 50_000, "each is looked up"
    assert lately.pages < 50_000 / 20 + 4 * SLOTS, "each of a twentieth; and a descent of the index for each slot"
