"""Clients' statements read few rows, even with plans that Postgres made while the tables were empty."""

from __future__ import annotations

import asyncpg
import pytest

from shardclock_server.service.processes import deploy
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import BOUND_S

MANY = 2_000
PLANNED_AFTER = 6  # calls: from then on Postgres keeps a plan
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
async def test_a_plan_from_empty_tables_reads_none_of_them_whole(dsn: str, call: str) -> None:
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
