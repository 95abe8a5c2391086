"""Prove that the statements for programs' service tasks find rows by their keys, however many other rows exist."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.factories import BOUND_S

MANY, FEW = 3_000, 10
PLANNED_AFTER = 6  # from this number of calls on, Postgres keeps a plan
# Each instance has its own definition and business key. Each instance waits for one task; the log has the end of
# another task of the instance.
FILL = """
    insert into shardclock.definitions (
        definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
    )
    select 9000000 + n, 'default', 'p', n, 'p', 'p.bpmn', sha256(n::text::bytea), '', '[]'
    from generate_series(1, $1::integer) n;
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    select n, 9000000 + n, 1, 'default', 'p', '{}' from generate_series(1, $1::integer) n;
    insert into shardclock.business_keys (instance_key, tenant_id, business_key)
    select n, 'default', 'order-' || n from generate_series(1, $1::integer) n;
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, payload, claims
    )
    select 3000000 + n, n, 2, now(), now(), now(), 1, n % 840, 'default', 'SERVICE_TASK', 'pack', '{}', 5
    from generate_series(1, $1::integer) n;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, detail
    )
    select 5000000 + n, n, 2, now(), now(), 1, 'DELIVERED', 'default', 'SERVICE_TASK', 'pack', '{"attempt": 1}'
    from generate_series(1, $1::integer) n
"""
READ = """
    select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as rows
    from pg_stat_xact_user_tables
    where schemaname = 'shardclock'
"""


async def reads(connection: asyncpg.Connection, call: str) -> dict[str, int]:
    """Call a function; count the rows that the function reads of each table."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        # The counters include earlier reads.
        before = {row["relname"]: row["rows"] for row in await connection.fetch(READ)}
        await connection.fetch(call)
        after = {row["relname"]: row["rows"] for row in await connection.fetch(READ)}
        return {table: rows - before.get(table, 0) for table, rows in after.items() if rows > before.get(table, 0)}
    finally:
        await transaction.rollback()


@pytest.fixture
async def planned(dsn: str) -> asyncpg.Connection:
    """Lend a connection with plans from empty tables, and then fill the tables."""
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    for _ in range(PLANNED_AFTER):
        await connection.fetch("select shardclock.complete_service_task(1, 1)")
        await connection.fetch("select shardclock.extend_service_task(1, 1)")
        await connection.fetch("select shardclock.fail_service_task(1, 1, null)")
        await connection.fetch("select * from shardclock.activate_service_tasks('pack')")
    for insert in FILL.split(";\n"):
        await connection.execute(insert, MANY)
    return connection


async def test_claiming_tasks_reads_only_the_claimed_tasks(planned: asyncpg.Connection) -> None:
    read = await reads(planned, f"select * from shardclock.activate_service_tasks('pack', {FEW})")
    await planned.close()
    assert {table: read[table] for table in ("instances", "definitions", "business_keys")} == dict.fromkeys(
        ("instances", "definitions", "business_keys"), FEW
    )
    assert FEW <= read["deliveries"] <= 3 * FEW, "found, locked, and updated"


@pytest.mark.parametrize(
    ("key", "state"), [(3_000_007, "TAKEN"), (5_000_007, "COMPLETED_BEFORE"), (7_000_007, "NOT_FOUND")]
)
@pytest.mark.parametrize("verb", ["complete", "extend", "fail"])
async def test_the_state_of_a_lost_task_is_read_by_its_key(
    planned: asyncpg.Connection, verb: str, key: int, state: str
) -> None:
    call = f"select shardclock.{verb}_service_task({key}, 1{', null' if verb == 'fail' else ''})"
    assert await planned.fetchval(call) == state
    read = await reads(planned, call)
    await planned.close()
    assert sum(read.values()) <= 3, f"looked for by at most three statements, or two and in the log: {read}"
