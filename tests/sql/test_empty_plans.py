"""Statements read few rows, even with plans that Postgres made while the tables were empty."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from shardclock_server.service.processes import deploy
from shardclock_server.sql.session import QUEUE_PLANS, Session
from shardclock_server.sql.statements import statement
from tests.support.bpmn import model
from tests.support.factories import BOUND_S, query
from tests.support.statement_headers import NAMES

MANY = 2_000
PLANNED_AFTER = 6  # from this number of calls on, Postgres keeps a plan
TABLES = (
    "deliveries",
    "instances",
    "process_starts",
    "subscriptions",
    "messages",
    "tasks",
    "task_acts",
    "incidents",
    "dead_letters",
)
# The columns that can't be null and have no default.
ROWS = """
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    select 1000000 + i, 1, 1, 'default', 'p', '{}' from generate_series(1, $1::integer) i;
    insert into shardclock.process_starts (tenant_id, idempotency_key, process_id, instance_key)
    select 'default', 'k' || i, 'p', 1000000 + i from generate_series(1, $1::integer) i;
    insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)
    select 2000000 + i, 1000000 + i, 2, 'default', 'p', 'u', 'u' from generate_series(1, $1::integer) i;
    insert into shardclock.subscriptions (
        instance_key, token, is_once, kind, tenant_id, name, correlation, process_id, node_id
    )
    select 1000000 + i, 3, true, 'message', 'default', 'm', 'k' || i, 'p', 'u' from generate_series(1, $1::integer) i;
    insert into shardclock.subscriptions (instance_key, token, is_once, kind, tenant_id, name, process_id, node_id)
    select 1000000 + i, 3, true, 'signal', 'default', 's' || i, 'p', 'u' from generate_series(1, $1::integer) i;
    insert into shardclock.incidents (instance_key, token, node_id, sentence)
    select 1000000 + i, 2, 'u', 'no' from generate_series(1, $1::integer) i;
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, claims, claimed_by, claimed_until
    )
    select 3000000 + i, 1000000 + i, 2, now(), now(), now(), 1, i % 840, 'default', 'SERVICE_TASK', 'pack', 1, 0,
        now() + interval '1 h'
    from generate_series(1, $1::integer) i;
    insert into shardclock.dead_letters (
        timer_key, due_date, created_at, fired_at, occurrence, claims, failed_attempts, slot, tenant_id, timer_type,
        target, reason
    )
    select 4000000 + i, now(), now(), now(), 1, 1, 1, i % 840, 'default', 'USER', 'h', 'no'
    from generate_series(1, $1::integer) i;
"""
READ = """
    select coalesce(sum(seq_tup_read), 0) from pg_stat_xact_user_tables
    where schemaname = 'shardclock' and relname = any ($1::text[])
"""


@pytest.mark.parametrize(
    "call",
    [
        "start_process('p', idempotency_key => 'another' || $1)",
        "cancel_instance(1000000 + $1)",
        "cancel_instance(5000000 + $1)",
        "set_variables(1000000 + $1, '{\"a\": 1}')",
        "move_tokens(1000000 + $1, array[2], array['u'])",
        "resolve_incident(1000000 + $1, 2)",
        "claim_task(2000000 + $1, 'ada')",
        "claim_task(5000000 + $1, 'ada')",
        "complete_task(2000000 + $1)",
        "complete_task(2000000 + $1, assignee => 'ada')",
        "complete_task(5000000 + $1)",
        "publish_message('m', 'k' || $1)",
        "throw_signal('s' || $1)",
        "extend_service_task(3000000 + $1, 1)",
        "complete_service_task(3000000 + $1, 1)",
        "throw_service_task_error(3000000 + $1, 1, 'CODE')",
        "redrive_dead_letters(array[4000000 + $1])",
        "discard_dead_letters(array[4000000 + $1], 'no use')",
    ],
)
async def test_a_plan_from_empty_tables_scans_no_whole_table(dsn: str, call: str) -> None:
    # Given a client with plans that Postgres made while the tables were empty and vacuumed
    async with Session(dsn, application="test") as session:
        await deploy(session, model('<startEvent id="s"/><userTask id="u"/>', connected="s>u"), resource="p.bpmn")
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    await connection.execute("vacuum (analyze)")
    text = f"select shardclock.{call.replace('$1', '$1::integer')}"
    for number in range(PLANNED_AFTER):
        await connection.fetch(text, -number)

    # When the tables have grown
    for insert in ROWS.strip().strip(";").split(";\n"):
        await connection.execute(insert, MANY)
    async with connection.transaction():
        await connection.fetch(text, MANY // 2)
        read = await connection.fetchval(READ, TABLES)
    await connection.close()

    assert read <= PLANNED_AFTER, "at most the rows of the first calls"


GROWING = {
    "business_keys", "dead_letters", "deliveries", "incidents", "instance_steps", "instances", "job_runs", "messages",
    "process_starts", "requests", "subscriptions", "task_acts", "tasks", "timers",
}  # fmt: skip
NO_PLAN = {"lock_api_keys"}  # the statement locks a table
# These statements read an index from its start, but only once and at most one page of rows.
FROM_THE_BEGINNING = {("measure_processes", "deliveries_deferred")}
# This statement finds the next due row for a test that moves the clock. It may read all rows, because the database of
# a test is small.
OF_TESTS = {"next_due"}
STATEMENTS = [name for name in NAMES if name not in NO_PLAN | OF_TESTS]


def repeated(node: dict[str, Any], *, again: bool = False) -> Iterator[dict[str, Any]]:
    """Return the scans that run once for each row of another scan, or in a subquery."""
    if again and node["Node Type"].endswith("Scan"):
        yield node
    for part in node.get("Plans", []):
        is_inner = node["Node Type"] == "Nested Loop" and part["Parent Relationship"] == "Inner"
        yield from repeated(part, again=again or is_inner or "SubPlan" in part.get("Subplan Name", ""))


def is_probe(scan: dict[str, Any]) -> bool:
    return not {"Index Cond", "Recheck Cond", "TID Cond"}.isdisjoint(scan)


@pytest.fixture(scope="module")
def plans() -> dict[str, str]:
    """Return the settings of the sessions of shards, workers and engines, with one plan for all executions."""
    return {**QUEUE_PLANS, "plan_cache_mode": "force_generic_plan"}


async def test_every_statement_probes_an_index_for_each_row_that_it_searches(
    each_dsn: str, plans: dict[str, str]
) -> None:
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S)
    await connection.execute("vacuum (analyze)")
    await connection.close()
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S, server_settings=plans)
    whole, scans = set[tuple[str, str]](), 0
    for name in STATEMENTS:
        for scan in repeated(await plan_of(connection, name)):
            scans += 1
            if scan.get("Relation Name") in GROWING and not is_probe(scan):
                whole.add((name, scan.get("Index Name", scan["Relation Name"])))
    await connection.close()

    assert whole == FROM_THE_BEGINNING
    assert scans > 100, "the plans were read"


async def plan_of(connection: asyncpg.Connection[Any], name: str) -> dict[str, Any]:
    asked = statement(name)
    given = ", ".join(["null"] * len(asked.parameters))
    await connection.execute(f"prepare {name} as {asked.text}")
    async with connection.transaction():
        said = await connection.fetchval(f"explain (format json) execute {name}{f'({given})' if given else ''}")
    plan: dict[str, Any] = json.loads(said)[0]["Plan"]
    return plan


def test_this_test_finds_all_statements() -> None:
    assert len(STATEMENTS) > 100


# The indexes that contain the primary key in a later column. Partial indexes are left out, because the planner can't
# use them for a lookup by key.
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
LISTED = {"task_acts", "audit"}  # No statement searches these tables for a single row.
# These tables may have such an index, because statements list their rows in order, for one tenant or for all tenants.
# Instances are kept for days, so their table is never emptied. Tasks are looked up one at a time.
IN_ORDER = {"instances", "tasks"}
OF_THEM = {"instances_by_process", "tasks_by_tenant"}
# Statements that may read a whole index, in this order: the first resolves all incidents, the second reads the small
# database of a test, the third counts all dead letters that a bulk change selects, the fourth reads the failing
# deliveries of all targets, and the fifth reads the API keys, of which a tenant has a few.
WHOLE = {
    ("resolve_incidents", "incidents_pkey"),
    ("next_due", "timers_by_slot"),
    ("count_selected_letters", "dead_letters_by_target"),
    ("group_failing_deliveries", "deliveries_failing"),
    ("has_key", "api_keys_by_name"),
}
LOOKUPS = [name for name in NAMES if name != "lock_api_keys"]  # this statement has no plan


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
    for name in LOOKUPS:
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
