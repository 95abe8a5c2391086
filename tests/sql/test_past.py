"""Test the counts of the last minutes, exact for few records and estimated for many, and the overdue tenants."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardclock_server.sql.metrics.past import count_past
from shardclock_server.sql.metrics.status import find_overdue_tenants, find_troubled_tenants
from shardclock_server.sql.session import CLIENT_PLANS, Session
from shardclock_server.sql.statements import statement
from tests.support.deliveries import add_deliveries, bury
from tests.support.factories import BOUND_S, add_timers, query, value
from tests.support.plans import prepare
from tests.support.roles import as_role
from tests.support.sql_client import session

SECTIONS, SECTION = 500, 20  # the sample of sql/metrics/count_past.sql
EXACT_MAX = SECTIONS * SECTION
RECORD = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, detail
    )
    select
        date_trunc('minute', now()) - $1 * interval '1 minute', i,
        date_trunc('minute', now()) - $1 * interval '1 minute' - $2 * interval '1 second', now() - interval '1 day', 2,
        $3, $4, 'USER', $5, '{}'
    from generate_series(1, $6) i
"""
# One record each 50 ms until the begin of this minute: 1,200 in each minute, a tenth of them of the tenant `shop`.
STEADY = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target
    )
    select
        m.at, i, m.at - case when i % 10 in (1, 3) then interval '5 s' else interval '0' end,
        now() - interval '1 day', 2,
        case when i % 2 = 0 then 'DELIVERED' else 'TRIGGERED' end, case when i % 10 < 2 then 'shop' else 'default' end,
        'USER', 'a'
    from generate_series(1, $1) i
    cross join lateral (select date_trunc('minute', now()) - ($1 - i + 0.5) * interval '50 ms' as at) m
"""
ASKED: dict[str, Any] = {
    "tenant_id": "shop", "target": None, "with_jobs": False, "minutes": 120, "late": "1 second", "now": None,
}  # fmt: skip


async def record(
    dsn: str, minutes_ago: int, intent: str, number: int = 1, *, late_s: int = 0, tenant: str = "default", to: str = "a"
) -> None:
    await query(dsn, RECORD, minutes_ago, late_s, intent, tenant, to, number)


async def numbers(dsn: str, tenant: str | None = "default", **asked: Any) -> list[tuple[object, ...]]:
    """Count the last two hours; return the age of each minute with its numbers."""
    now = await value(dsn, "select date_trunc('minute', now())")
    async with session(dsn, "gateway") as reader:
        found = await count_past(reader, tenant, minutes=120, with_jobs=asked.pop("with_jobs", False), now=now, **asked)
    assert not any(it.estimated for it in found)
    return [((now - it.began_at).seconds // 60, it.fired, it.late, it.latest_s, it.delivered, it.died) for it in found]


async def test_firings_deliveries_and_dead_letters_are_counted_by_minute(dsn: str) -> None:
    assert await numbers(dsn) == [], "the log is empty"
    await record(dsn, 121, "TRIGGERED", 7)
    await record(dsn, 119, "TRIGGERED", 3)
    await record(dsn, 60, "TRIGGERED", 2, late_s=90)
    await record(dsn, 60, "TRIGGERED", 1, late_s=1)
    await record(dsn, 60, "DELIVERED", 2)
    await record(dsn, 60, "CANCELED", 9)
    await record(dsn, 0, "DEAD", 4)

    assert await numbers(dsn) == [(119, 3, 0, 0.0, 0, 0), (60, 3, 2, 90.0, 2, 0), (0, 0, 0, None, 0, 4)]


async def test_a_failed_start_of_a_job_and_a_failed_service_task_are_no_new_dead_letters(dsn: str) -> None:
    await record(dsn, 5, "TRIGGERED", 1, to="job:nightly")
    await record(dsn, 5, "DEAD", 3, to="job:nightly")
    await record(dsn, 5, "DEAD", 4, to="charge")
    await query(dsn, "update shardclock.command_log set timer_type = 'SERVICE_TASK' where target = 'charge'")
    await record(dsn, 5, "DEAD", 2)

    assert await numbers(dsn, with_jobs=True) == [(5, 1, 0, 0.0, 0, 2)]


async def test_the_counts_are_of_one_tenant_and_one_target_and_leave_out_jobs(dsn: str) -> None:
    await record(dsn, 5, "TRIGGERED", 1)
    await record(dsn, 5, "TRIGGERED", 2, to="b")
    await record(dsn, 5, "TRIGGERED", 4, tenant="shop")
    await record(dsn, 5, "TRIGGERED", 8, to="job:nightly")

    counts = [
        await numbers(dsn, **asked)
        for asked in ({}, {"target": "b"}, {"with_jobs": True}, {"tenant": "shop"}, {"tenant": None})
    ]
    assert [fired for ((_, fired, *_),) in counts] == [3, 2, 11, 4, 7]


async def test_many_records_are_estimated_from_a_sample_of_each_minute(dsn: str) -> None:
    await query(dsn, STEADY, 60_000)
    async with session(dsn, "gateway") as reader:
        found = await count_past(reader, "default", minutes=120, with_jobs=False)
        of_shop = await count_past(reader, "shop", minutes=120, with_jobs=False)

    assert len(found) == len(of_shop) == 50
    for it in found:
        assert (it.estimated, it.latest_s, it.died) == (True, 5.0, 0)
        assert [it.fired, it.late, it.delivered] == pytest.approx([480, 120, 480], rel=0.1)
    assert sum(it.fired for it in found) == pytest.approx(24_000, rel=0.01)
    assert sum(it.fired for it in of_shop) == pytest.approx(6_000, rel=0.02)


async def test_a_gateways_session_reads_few_records_if_the_tenant_has_no_records(dsn: str) -> None:
    await query(dsn, STEADY, 60_000)
    await query(dsn, "vacuum analyze shardclock.command_log")
    text, *values = statement("count_past").with_values(ASKED | {"tenant_id": "nobody", "late": None})
    async with Session(as_role(dsn, "gateway"), application="test", timeout_s=BOUND_S, plans=CLIENT_PLANS) as reader:
        reader.serve(frozenset({"nobody"}))
        async with reader.connection() as connection:
            explained = f"explain (analyze, buffers, timing off, format json) {text}"
            plan = json.loads(await connection.fetchval(explained, *values))[0]["Plan"]
        assert await count_past(reader, "nobody", minutes=120, with_jobs=False) == []

    nodes, read, searched = [plan], 0.0, set[str]()
    for node in nodes:
        nodes += node.get("Plans", [])
        if node.get("Relation Name", "").startswith("command_log"):
            read += node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            searched.add(node["Node Type"])
    assert EXACT_MAX <= read <= EXACT_MAX + 50, "a binary search of 60,000 records has 16 steps"
    assert searched == {"Index Scan", "Index Only Scan"}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 8_000


async def test_the_tenants_with_overdue_timers_are_found_among_few_rows_of_each_slot(dsn: str) -> None:
    await add_timers(dsn, 40_000, "now() - interval '1 minute'")
    await add_timers(dsn, 3, "now() - interval '1 hour'", tenant_id="'shop'")
    await add_timers(dsn, 9, "now() + interval '1 hour'", tenant_id="'later'")
    search = await prepare(dsn, "find_overdue_tenants", **CLIENT_PLANS)
    reading = await search.explain("'1 second'", "5", touched=True)
    await search.connection.close()
    async with session(dsn, "gateway") as reader:
        found = await find_overdue_tenants(reader, limit=5)
        first = await find_overdue_tenants(reader, limit=1)

    assert [it.tenant_id for it in found] == ["default", "shop"]
    assert [it.timers for it in found] == [840 * 3 - 3, 3], "3 timers of each slot"
    assert first == found[:1]
    assert reading.rows <= 840 * 3
    assert reading.indexes == {"timers_by_slot"}


TENANTS = "'t-' || to_char({} % 200, 'FM000')"
ENDPOINTS = """
    insert into shardclock.endpoints (tenant_id, name, url, secrets)
    select 't-' || to_char(i, 'FM000'), 'billing', 'https://example.com', '{whsec_x}' from generate_series(0, 199) i
"""


async def test_the_troubled_tenants_are_found_by_few_rows_of_each_tenant_even_with_a_plan_for_empty_tables(
    dsn: str,
) -> None:
    search = await prepare(dsn, "find_troubled_tenants", **CLIENT_PLANS, plan_cache_mode="force_generic_plan")
    empty = await search.explain("'t-000'", "20", "100", touched=True, table="deliveries")
    await query(dsn, ENDPOINTS)
    await bury(dsn, 4_000)
    await query(dsn, f"update shardclock.dead_letters set tenant_id = {TENANTS.format('timer_key')}")
    await add_deliveries(dsn, 30_000, "webhook:billing", tenant_id=TENANTS.format("i"), fired_at="now()")
    await add_deliveries(
        dsn, 4_000, "webhook:billing", tenant_id=TENANTS.format("i"), fired_at="now()", failed_attempts="1"
    )
    letters = await search.explain("'t-000'", "20", "100", touched=True, table="dead_letters")
    failing = await search.explain("'t-000'", "20", "100", touched=True, table="deliveries")
    await search.connection.close()
    async with session(dsn, "gateway") as reader:
        found = await find_troubled_tenants(reader, tenant_id="t-000", limit=20)

    assert [it.tenant_id for it in found] == [f"t-{number:03}" for number in range(1, 21)]
    assert {(it.failing_endpoints, it.dead_letters) for it in found} == {(1, 20)}
    assert empty.rows == 0
    assert (letters.indexes, failing.indexes) == ({"dead_letters_by_tenant"}, {"deliveries_failing"})
    assert letters.rows <= 21 + 20 * 20
    assert failing.rows <= 100 + 100 * 20
