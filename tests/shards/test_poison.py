"""Prove that a timer with a refused record or schedule fails alone."""

from __future__ import annotations

from datetime import timedelta

from tests.support.factories import add_schedule, add_timers
from tests.support.shard_pool import ShardPool
from tests.support.verdict import breaches
from tests.support.waiting import eventually


async def test_only_the_timer_with_a_refused_record_fails_on_both_paths(
    pool: ShardPool, claim_calls: list[str]
) -> None:
    keys = await add_timers(pool.dsn, 200, "now() + i % 3 * interval '0.3 s'")  # some are overdue, some are leased
    poison = {keys[2], keys[100], keys[-1]}
    await _refuse_records_of(pool, poison)

    shard = await pool.start()
    await pool.until_fired(197)
    await eventually(lambda: shard.stats.refused == 3)

    assert await breaches(pool.db, keys) == {}
    assert {row["timer_key"] for row in await pool.fired()} == set(keys) - poison
    assert "own+" in claim_calls, "it tried the short way"
    assert "own" in claim_calls, "it took the long way, where one bad row fails alone"

    # When the cause is removed, the timer fires.
    await pool.db.execute("drop trigger poison on shardclock.command_log")
    await pool.db.execute("update shardclock.timers set claimed_by = null, claimed_until = null")
    await pool.until_empty()
    assert await breaches(pool.db, keys) == {}


async def test_only_the_unreadable_schedule_fails_and_it_is_paused(pool: ShardPool) -> None:
    keys = await add_timers(pool.dsn, 100, "now() + interval '0.3 s'")
    poison = await add_schedule(pool.dsn, "R/often", "now() + interval '0.3 s'")
    overdue = await add_schedule(pool.dsn, "R/seldom", name="'seldom'")
    healthy = await add_schedule(pool.dsn, name="'healthy'")

    await pool.start()
    await pool.until_fired(101)
    await eventually(lambda: _set_aside(pool, 2))

    assert {row["timer_key"] for row in await pool.fired()} == {*keys, healthy}
    aside = await pool.db.fetch("select timer_key from shardclock.timer_history where state = 'PAUSED'")
    assert {row["timer_key"] for row in aside} == {poison, overdue}
    whys = await pool.db.fetch("select detail ->> 'refused' as why from shardclock.command_log where intent = 'PAUSED'")
    assert all("has no valid period" in row["why"] for row in whys)
    assert len(whys) == 2


async def test_a_schedule_from_sql_is_planned_by_a_shard_and_then_fires_on_its_grid(pool: ShardPool) -> None:
    key = await pool.db.fetchval("select shardclock.schedule_timer(schedule => '* * * * * *', name => 'tick')")
    never = await pool.db.fetchval(
        "insert into shardclock.timers (timer_key, due_date, name, schedule, anchor, anchor_occurrence, repetitions)"
        " values (nextval('shardclock.timer_key_seq'), now(), 'never', '0 0 30 2 *', now(), null, -1)"
        " returning timer_key"
    )

    shard = await pool.start()
    await pool.until_fired(2)

    first, second = (await pool.fired())[:2]
    assert (first["timer_key"], first["occurrence"], second["occurrence"]) == (key, 1, 2)
    assert first["due_date"].microsecond == 0
    assert second["due_date"] - first["due_date"] == timedelta(seconds=1)
    assert (shard.stats.planned, shard.stats.refused) == (1, 1)
    aside = await pool.db.fetchrow("select timer_key, detail from shardclock.command_log where intent = 'PAUSED'")
    assert aside is not None
    assert aside["timer_key"] == never
    assert "never occurs" in aside["detail"]


async def test_a_poison_timer_is_not_retried_until_its_lease_ends(pool: ShardPool, fire_calls: list[int]) -> None:
    keys = await add_timers(pool.dsn, 64, "now() + interval '0.2 s'")
    await _refuse_records_of(pool, {keys[20]})

    shard = await pool.start()
    await pool.until_fired(63)
    await eventually(lambda: shard.stats.refused == 1)
    witness = await add_timers(pool.dsn, 5, "now() + interval '0.3 s'")
    await pool.until_fired(68)

    # The first statement has all 64 timers. Each of the six halvings needs two more statements. The last statements
    # fire the witnesses.
    assert len(fire_calls) <= 1 + 2 * 6 + len(witness)
    assert shard.stats.refused == 1


async def _set_aside(pool: ShardPool, count: int) -> bool:
    text = "select count(*) = $1 from shardclock.timer_history where state = 'PAUSED'"
    return bool(await pool.db.fetchval(text, count))


async def _refuse_records_of(pool: ShardPool, keys: set[int]) -> None:
    listed = ", ".join(map(str, keys))
    await pool.db.execute(
        "create function shardclock.poison() returns trigger language plpgsql as"
        " $$ begin raise exception 'poison %', new.timer_key; end $$"
    )
    await pool.db.execute(
        "create trigger poison before insert on shardclock.command_log for each row"
        f" when (new.timer_key in ({listed})) execute function shardclock.poison()"
    )
