"""A lookup by key takes one probe of the index, even with a plan that Postgres made while the table was empty.

On an emptied and vacuumed table, the planner estimates the same cost for a read of a whole index and for one probe.
Then
the planner may choose any index with the key among its columns, and a long session may keep this plan until the next
analyze. Measured on Postgres 16: a lookup of 500 of 80,000 deliveries took 2.7 s instead of 3 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import asyncpg

from shardclock_server.sql.statements import statement
from tests.support.factories import BOUND_S, query
from tests.support.statement_headers import NAMES

# A partial index is not affected: a lookup by key does not have its condition.
OTHERS = """
    select c.relname as of_table, i.indexrelid::regclass::text as index, a.attname as key
    from pg_index p
    join pg_class c on c.oid = p.indrelid and c.relnamespace = 'shardclock'::regnamespace
    join pg_attribute a on a.attrelid = p.indrelid and a.attnum = p.indkey[0]
    join pg_index i on i.indrelid = p.indrelid and not i.indisprimary
    where p.indisprimary and p.indnkeyatts = 1 and i.indpred is null and i.indkey[0] <> p.indkey[0]
        and p.indkey[0] = any (i.indkey::smallint[])
"""
FIRST_COLUMNS = """
    select c.relname as index, trim('"' from pg_get_indexdef(i.indexrelid, 1, true)) as first_column
    from pg_index i
    join pg_class c on c.oid = i.indexrelid and c.relnamespace = 'shardclock'::regnamespace
"""
LISTED = {"task_acts", "audit"}  # no statement looks up one row of these
# Rows listed in order, by tenant or for all tenants. Instances are kept for days, so their table is never emptied.
# Tasks are looked up one at a time.
IN_ORDER = {"instances", "tasks"}
OF_THEM = {"instances_by_process", "tasks_by_tenant"}
# The first statement resolves all incidents, the second reads the small database of a test, and the third counts all
# dead letters that a bulk change selects.
WHOLE = {
    ("resolve_incidents", "incidents_pkey"),
    ("next_due", "timers_by_slot"),
    ("count_selected_letters", "dead_letters_by_target"),
}
STATEMENTS = [name for name in NAMES if name != "lock_api_keys"]  # this statement has no plan


async def test_no_other_index_has_the_key_by_which_rows_are_looked_up(dsn: str) -> None:
    others = [tuple(row) for row in await query(dsn, OTHERS) if row["of_table"] not in LISTED | IN_ORDER]

    assert others == []


async def test_no_statement_reads_a_whole_index_with_a_plan_from_empty_tables(each_dsn: str) -> None:
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S, statement_cache_size=0)
    await connection.execute("vacuum (analyze)")
    await connection.execute("set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off")
    await connection.execute("set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off")
    first_columns = {row["index"]: row["first_column"] for row in await connection.fetch(FIRST_COLUMNS)}
    whole = set()
    for name in STATEMENTS:
        for node in await _plan_of(connection, name):
            index, condition = node.get("Index Name"), node.get("Index Cond", "").replace('"', "")
            if index in first_columns.keys() - OF_THEM and condition and not _mentions(condition, first_columns[index]):
                whole.add((name, index))
    await connection.close()

    assert whole == WHOLE


async def _plan_of(connection: asyncpg.Connection[Any], name: str) -> Iterator[dict[str, Any]]:
    asked = statement(name)
    await connection.execute(f"prepare {name}_ as {asked.text}")
    values = f"({', '.join('null' for _ in asked.parameters)})" if asked.parameters else ""
    (row,) = await connection.fetch(f"explain (format json) execute {name}_{values}")
    return _nodes(json.loads(row[0])[0]["Plan"])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _mentions(condition: str, column: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", condition) is not None
