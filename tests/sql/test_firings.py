"""Prove that one statement reads the last firings of schedules, from a bounded number of records."""

from __future__ import annotations

import asyncpg
import pytest

from shardclock_server.sql.clients.firings import RECORDS_MAX, read_firings
from shardclock_server.sql.statements import statement
from tests.support.factories import HolderClient, add_schedule, query

READ = """
    select sum(s.seq_tup_read + coalesce(s.idx_tup_fetch, 0))::integer
    from pg_stat_xact_user_tables s
    where s.relname like 'command_log%'
"""
# Each firing has the record of its delivery's end, as with a target.
RECORDS = """
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, recorded_at, intent, tenant_id, timer_type, target, name, schedule,
        detail
    )
    select
        i, at, at - interval '1 hour', i, at + interval '3 seconds', r.intent, 'acme', 'USER', 'log', 'beat-' || n,
        'R/PT1H', r.detail
    from generate_series(1, 60) n
    cross join generate_series(1, 90) i
    cross join lateral (select now() - (100 - i) * interval '1 minute' as at) a
    cross join lateral (
        values ('TRIGGERED', case when i = 90 then jsonb_build_object('changed_at', at + interval '1 second') end),
            ('DELIVERED', null)
    ) as r (intent, detail)
    order by i
"""


async def test_the_firings_of_a_page_of_schedules_are_read_in_one_bounded_statement(dsn: str) -> None:
    await query(dsn, RECORDS)
    await query(dsn, "vacuum analyze")
    names = [f"beat-{n}" for n in range(1, 51)]
    values = {"tenant_id": "acme", "names": names, "firings_max": 30, "records_max": RECORDS_MAX}
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("set local enable_seqscan = off")
            rows = await connection.fetch(*statement("read_firings").with_values(values))
            read = await connection.fetchval(READ)
    finally:
        await connection.close()

    assert len(rows) == 50 * 30
    assert read <= 50 * RECORDS_MAX
    assert [(row["name"], row["occurrence"]) for row in rows[29:31]] == [("beat-1", 61), ("beat-2", 90)]
    assert [row["late_s"] for row in rows[:2]] == [pytest.approx(2.0), pytest.approx(3.0)]


async def test_skipped_occurrences_are_counted_and_other_tenants_are_not_read(shard: HolderClient) -> None:
    ago = {"anchor": "now() - interval '9 hours'", "repetitions": "9"}
    for tenant in ("acme", "umbrella"):
        await add_schedule(
            shard.dsn, "R9/PT1H", "now() - interval '8 hours'", missed="'skip'", tenant_id=f"'{tenant}'", **ago
        )
    await shard.fire((await shard.take(scope="sweep")).claimed)

    found = await read_firings(shard.session, "acme", ["beat", "nobody"])

    assert list(found) == ["beat"]
    assert [(it.intent, it.late_s, it.skipped) for it in found["beat"]] == [("SKIPPED", None, 8)]
    assert await read_firings(shard.session, "nobody", ["beat"]) == {}
