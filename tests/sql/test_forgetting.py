"""Instances that ended long ago are deleted; an instance with a long history is deleted in several steps."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from shardclock_server.sql.processes.signals import forget_instances
from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import statement
from tests.support.factories import query, value
from tests.support.plans import prepare

DAY_S = 86_400.0
ENDED = """
    insert into shardclock.instances (
        instance_key, definition_key, version, ended_at, tenant_id, process_id, outcome, result
    )
    select n, 1, 1, now() - interval '9 days' + n * interval '1 s', 'default', 'p', 'COMPLETED', '{}'
    from generate_series(1, $1::integer) n
"""
STEPS = """
    insert into shardclock.instance_steps (instance_key, version, holder, signals, passes)
    select $1, n, 1, '[]', '[]' from generate_series(1, $2::integer) n
"""
ACTS = """
    insert into shardclock.task_acts (task_key, instance_key, act, actor)
    select n, $1, 'CREATED', 'engine' from generate_series(1, $2::integer) n
"""
NAMED = """
    insert into shardclock.business_keys (instance_key, tenant_id, business_key)
    select n, 'default', 'order-' || n from generate_series(1, $1::integer) n
"""
FIFTY = {"kept": timedelta(days=7), "batch": 50, "parts": 5_000}


async def left(dsn: str, table: str) -> int:
    return int(await value(dsn, f"select count(*) from shardclock.{table}"))


@pytest.mark.parametrize(("add", "table"), [(STEPS, "instance_steps"), (ACTS, "task_acts")])
async def test_a_long_history_is_deleted_in_parts_and_its_instance_with_the_last_part(
    dsn: str, add: str, table: str
) -> None:
    await query(dsn, ENDED, 2)
    for key, count in ((1, 2_500), (2, 3)):
        await query(dsn, add, key, count)
    async with Session(dsn, application="test") as session:
        seen = []
        for _ in range(3):
            has_more = await forget_instances(session, kept_s=7 * DAY_S, batch=500, parts=1_000)
            seen.append((has_more, await left(dsn, table), await left(dsn, "instances")))
    assert seen == [(True, 1_503, 2), (True, 503, 2), (False, 0, 0)]


async def test_after_a_full_batch_there_may_be_more(dsn: str) -> None:
    await query(dsn, ENDED, 5)
    async with Session(dsn, application="test") as session:
        done = [await forget_instances(session, kept_s=7 * DAY_S, batch=2, parts=1_000) for _ in range(3)]
    assert done == [True, True, False]
    assert await left(dsn, "instances") == 0


async def test_kept_instances_are_not_read(dsn: str) -> None:
    await query(dsn, ENDED, 1_000)
    for key in range(1, 201):
        await query(dsn, STEPS, key, 10)
        await query(dsn, ACTS, key, 10)
    forgetting = await prepare(dsn, "forget_instances")
    read = {"instances": 50, "instance_steps": 500, "task_acts": 500, "incidents": 50}
    for table, rows in read.items():
        reading = await forgetting.explain("'7 days'", "50", "5000", touched=True, table=table)
        assert reading.rows <= 3 * rows, f"{table}: found, deleted, looked for again"
        assert "Seq Scan" not in reading.scans
    await forgetting.connection.close()


async def test_business_keys_of_kept_instances_are_not_read(dsn: str) -> None:
    await query(dsn, ENDED, 1_000)
    await query(dsn, NAMED, 1_000)
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute(*statement("forget_instances").with_values(FIFTY))
        read = await connection.fetchval(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables"
            " where relid = 'shardclock.business_keys'::regclass"
        )
    await connection.close()
    assert (read, await left(dsn, "business_keys")) == (50, 950)
