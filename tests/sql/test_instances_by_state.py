"""Prove that a search for instances reads no other instances, and that instances that ended long ago are deleted."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from shardclock_server.sql.processes.instances import find_instance, find_instances
from shardclock_server.sql.processes.signals import forget_instances
from shardclock_server.sql.session import CLIENT_PLANS, QUEUE_PLANS, Session
from shardclock_server.sql.statements import statement
from tests.support.factories import query, value
from tests.support.given_up import give_up_starts
from tests.support.plans import arguments_of, prepare, prepare_as
from tests.support.sql_client import session as as_role

PAGE = 10
MANY = 3_000
OF_A_STATE = 400
# The oldest instances did not complete, and every second of them belongs to another tenant. Newer instances run or have
# completed.
FILL = """
    with definition as (
        insert into shardclock.definitions (
            definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
        )
        values
            (1, 'default', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]'),
            (2, 'other', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]')
    )
    insert into shardclock.instances (
        instance_key, definition_key, version, ended_at, tenant_id, process_id, outcome, state
    )
    select
        n, case when n % 2 = 0 then 1 else 2 end, 1, case when o.outcome is not null then now() end,
        case when n % 2 = 0 then 'default' else 'other' end,
        'p', o.outcome, case when o.outcome is null then '{}' end
    from generate_series(1, $1::integer) n
    cross join lateral (
        select case
            when n <= 400 then 'CANCELED'
            when n <= 800 then 'ERROR'
            when n % 3 > 0 then 'COMPLETED'
        end as outcome
    ) o
"""

THE_OLDEST_RUN = """
    update shardclock.instances
    set outcome = case when instance_key > $1::integer then 'COMPLETED' end,
        ended_at = case when instance_key > $1::integer then now() end,
        state = case when instance_key <= $1::integer then '{}'::jsonb end
"""

# Dead letters as `give_up_starts` writes them: a third are starts, and a third are signals to instances.
SIGNALS = """
    insert into shardclock.deliveries (
        timer_key, process_instance_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type,
        target, payload
    )
    select
        10000 + n, case when n % 3 = 1 then n end, now(), now(), now(), 1, n % 840,
        case d.key when 3 then 'other' else 'default' end, 'USER',
        case when n % 3 = 2 then 'webhook:n' else 'process:instance' end,
        jsonb_build_object('kind', 'begin', 'definition', d.key)
    from generate_series(1, $1::integer) n
    cross join lateral (select case when n % 30 = 0 then 3 when n % 2 = 0 then 1 else 2 end as key) d
"""


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tables", ["never analyzed", "analyzed", "empty when it was planned"])
@pytest.mark.parametrize("state", ["CANCELED", "ERROR"])
async def test_a_page_of_instances_that_did_not_complete_reads_no_more_than_it_shows(
    each_dsn: str, plans: dict[str, str], tables: str, state: str
) -> None:
    find = await prepare_as(each_dsn, "find_instances_by_outcome", plans)
    if tables.startswith("empty"):
        await query(each_dsn, "vacuum analyze")
        await find.explain(*arguments_of(find.name, state=state, page_size=PAGE), touched=True)
    await query(each_dsn, FILL, MANY)
    if tables == "analyzed":
        await query(each_dsn, "analyze")

    # Without a count of the rows, the planner may expect few rows of a state, and sort them all.
    is_known = tables == "analyzed" or plans == QUEUE_PLANS
    for before, tenant_id, most in ((None, None, 2 * PAGE), (610, None, 2 * PAGE), (None, "other", PAGE)):
        asked = arguments_of(find.name, state=state, before=before, tenant_id=tenant_id, page_size=PAGE)
        reading = await find.explain(*asked, touched=True, table="instances")
        assert reading.rows <= (most if is_known else OF_A_STATE), (before, tenant_id)
        assert not is_known or reading.indexes == {"instances_by_outcome"}
    await find.connection.close()


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tables", ["never analyzed", "analyzed", "empty when it was planned"])
async def test_a_page_of_running_instances_reads_no_newer_ended_instances(
    each_dsn: str, plans: dict[str, str], tables: str
) -> None:
    find = await prepare_as(each_dsn, "find_instances_running", plans)
    if tables.startswith("empty"):
        await query(each_dsn, "vacuum analyze")
        await find.explain(*arguments_of(find.name, page_size=PAGE), touched=True)
    await query(each_dsn, FILL, MANY)
    await query(each_dsn, THE_OLDEST_RUN, OF_A_STATE)
    if tables == "analyzed":
        await query(each_dsn, "analyze")

    is_known = tables == "analyzed" or plans == QUEUE_PLANS
    for before, tenant_id, most in ((None, None, 2 * PAGE), (210, None, 2 * PAGE), (None, "other", PAGE)):
        asked = arguments_of(find.name, before=before, tenant_id=tenant_id, page_size=PAGE)
        reading = await find.explain(*asked, touched=True, table="instances")
        assert reading.rows <= (most if is_known else OF_A_STATE), (before, tenant_id)
        assert reading.indexes == {"instances_running"}
    await find.connection.close()


async def test_running_instances_are_listed_page_by_page_and_other_filters_apply(dsn: str) -> None:
    await query(dsn, FILL, MANY)
    await query(dsn, THE_OLDEST_RUN, OF_A_STATE)
    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        running = await find_instances(session, state="RUNNING", page_size=1_000)
        after = await find_instances(session, state="RUNNING", before=running[9].instance_key, page_size=5)
        others = await find_instances(session, state="RUNNING", tenant_id="other", page_size=3)
        none = await find_instances(session, state="RUNNING", process_id="q")
    assert [it.instance_key for it in running] == list(range(400, 0, -1))
    assert {(it.state, it.version, it.process_id, it.ended_at) for it in running} == {("RUNNING", 1, "p", None)}
    assert after == running[10:15]
    assert [(it.instance_key, it.tenant_id) for it in others] == [(399, "other"), (397, "other"), (395, "other")]
    assert none == []


async def test_instances_of_a_state_are_listed_page_by_page_and_other_filters_apply(dsn: str) -> None:
    await query(dsn, FILL, MANY)
    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        failed = await find_instances(session, state="ERROR", page_size=1_000)
        after = await find_instances(session, state="ERROR", before=failed[9].instance_key, page_size=5)
        others = await find_instances(session, state="CANCELED", tenant_id="other", page_size=3)
        none = await find_instances(session, state="CANCELED", process_id="q")
    assert [it.instance_key for it in failed] == list(range(800, 400, -1))
    assert {(it.state, it.version, it.ended_at is None) for it in failed} == {("ERROR", 1, False)}
    assert after == failed[10:15]
    assert [it.instance_key for it in others] == [399, 397, 395]
    assert none == []


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tables", ["never analyzed", "analyzed", "empty when it was planned"])
async def test_a_page_of_starting_instances_reads_no_more_than_it_may_show(
    each_dsn: str, plans: dict[str, str], tables: str
) -> None:
    find = await prepare_as(each_dsn, "find_instances_starting", plans)
    if tables.startswith("empty"):
        await query(each_dsn, "vacuum analyze")
        await find.explain(*arguments_of(find.name, page_size=PAGE), touched=True)
    await give_up_starts(each_dsn, MANY)
    await query(each_dsn, SIGNALS, MANY)
    if tables == "analyzed":
        await query(each_dsn, "analyze")

    for before, tenant_id, most in ((None, None, 2 * PAGE), (10_900, None, 2 * PAGE), (None, "other", PAGE)):
        asked = arguments_of(find.name, before=before, tenant_id=tenant_id, page_size=PAGE)
        waiting = await find.explain(*asked, touched=True, table="deliveries")
        given_up = await find.explain(*asked, touched=True, table="dead_letters")
        assert max(waiting.rows, given_up.rows) <= most, (before, tenant_id)
        assert (waiting.indexes, given_up.indexes) == ({"deliveries_of_starts"}, {"dead_letters_of_starts"})
    await find.connection.close()


async def test_starting_instances_are_listed_together_with_instances_whose_start_was_given_up(dsn: str) -> None:
    await give_up_starts(dsn, 30)
    await query(dsn, SIGNALS, 60)
    await query(dsn, "insert into shardclock.business_keys values (10060, 'other', 'order-42')")
    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        starting = await find_instances(session, state="STARTING")
        shown = [await find_instance(session, one.instance_key) for one in starting]
        after = await find_instances(session, state="STARTING", before=10_006, page_size=2)
        others = await find_instances(session, state="STARTING", tenant_id="other")
        of_q = await find_instances(session, state="STARTING", process_id="q", page_size=2)
    assert [it.instance_key for it in starting] == [*range(10_060, 10_000, -3), *range(30, 0, -3)]
    assert starting == [whole.found for whole in shown if whole is not None]
    assert [it.incidents for it in starting] == [0] * 20 + [1] * 10
    assert [it.instance_key for it in after] == [10_003, 30]
    assert [(it.instance_key, it.business_key) for it in others] == [(10_060, "order-42"), (10_030, None), (30, None)]
    assert [it.instance_key for it in of_q] == [10_057, 10_051]


async def test_a_gateway_sees_the_starting_instances_of_its_tenants(each_dsn: str) -> None:
    await give_up_starts(each_dsn, 30)
    await query(each_dsn, SIGNALS, 60)
    async with as_role(each_dsn, "gateway") as session:
        session.serve(frozenset({"other"}))
        assert [it.instance_key for it in await find_instances(session, state="STARTING")] == [10_060, 10_030, 30]


async def test_a_start_that_was_written_in_sql_hides_no_other_start(dsn: str) -> None:
    await give_up_starts(dsn, 3)
    await query(dsn, SIGNALS, 6)
    await query(dsn, """update shardclock.deliveries set payload = '{"definition": "x"}' where timer_key = 10006""")
    async with Session(dsn, application="test") as session:
        assert [it.instance_key for it in await find_instances(session, state="STARTING")] == [10_003, 3]


async def test_a_step_of_a_running_instance_writes_no_index(each_dsn: str) -> None:
    await query(each_dsn, FILL, 830)
    connection = await asyncpg.connect(each_dsn)
    async with connection.transaction():
        await connection.execute(
            "update shardclock.instances set version = version + 1, state = '{ }' where outcome is null"
        )
        counted = await connection.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables"
            " where relid = 'shardclock.instances'::regclass"
        )
    await connection.close()
    assert counted is not None
    assert counted["n_tup_upd"] == counted["n_tup_hot_upd"] > 0


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


async def test_after_a_full_batch_more_ended_instances_may_remain(dsn: str) -> None:
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
