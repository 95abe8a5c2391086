"""A search finds a timer that a shard has paused, until a client changes the timer; the search reads few rows."""

from __future__ import annotations

from shardclock_server.sql.clients.refused import find_refused
from shardclock_server.sql.session import EACH_TIME
from tests.support.factories import add_timers, query
from tests.support.plans import prepare
from tests.support.sql_client import session

REFUSE = """
    update shardclock.command_log set detail = '{"refused": "it never occurs"}'
    where intent = 'PAUSED' and name = any ($1)
"""


async def test_only_timers_that_a_shard_has_paused_are_found_the_last_first(each_dsn: str) -> None:
    for name in ("one", "two", "by-hand", "mended"):
        await add_timers(each_dsn, 1, "now() + interval '1 hour'", name=f"'{name}'")
        await query(each_dsn, "select shardclock.pause_timer(name => $1)", name)
    await query(each_dsn, REFUSE, ["one", "two", "mended"])
    await query(each_dsn, "select shardclock.resume_timer(name => 'mended')")
    await query(each_dsn, "select shardclock.pause_timer(name => 'mended')")

    async with session(each_dsn, "reader") as reader:
        found = await find_refused(reader, "default", with_jobs=False, limit=10)
        first = await find_refused(reader, "default", with_jobs=False, limit=1)
        others = await find_refused(reader, "acme", with_jobs=True, limit=10)

    assert [(it.name, it.reason) for it in found] == [("two", "it never occurs"), ("one", "it never occurs")]
    assert (first, others) == (found[:1], [])


async def test_timers_of_jobs_are_found_for_operators_alone(each_dsn: str) -> None:
    await add_timers(each_dsn, 1, "now() + interval '1 hour'", name="'beat'")
    await query(each_dsn, "select shardclock.pause_timer(name => 'beat')")
    await query(each_dsn, REFUSE, ["beat"])
    await query(each_dsn, "alter table shardclock.timers disable trigger all")
    await query(each_dsn, "update shardclock.timers set target = 'job:beat'")

    async with session(each_dsn, "reader") as reader:
        assert await find_refused(reader, "default", with_jobs=False, limit=10) == []
        assert [it.target for it in await find_refused(reader, "default", with_jobs=True, limit=10)] == ["job:beat"]


async def test_the_search_reads_no_more_timers_than_its_limit(each_dsn: str) -> None:
    await add_timers(each_dsn, 5_000, "now() + interval '1 day'", changed_at="now() - i * interval '1 s'")
    await add_timers(each_dsn, 20, "now() + interval '1 hour'", name="'beat-' || i")
    await query(
        each_dsn,
        "select shardclock.pause_timers(array(select timer_key from shardclock.timers where name like 'beat%'))",
    )
    await query(each_dsn, "vacuum analyze")
    find = await prepare(each_dsn, "find_refused", **EACH_TIME)

    reading = await find.explain("'default'", "true", "500", "100", touched=True, table="timers")

    assert reading.rows <= 510
    assert reading.indexes == {"timers_by_change"}
    await find.connection.close()
