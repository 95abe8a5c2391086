"""Prove that tenants' limits are stored, and that a count of usage reads few rows, or estimates well."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import asyncpg
import pytest

from shardclock_server.sql.session import CLIENT_PLANS, Session, StatementRefused
from shardclock_server.sql.statements import statement
from shardclock_server.sql.tenant_limits import tenant_limits as module
from shardclock_server.sql.tenant_limits.tenant_limits import (
    SAMPLE_TIMERS,
    Limits,
    Pending,
    count_schedules,
    find_limits,
    list_tenants,
    measure_pending,
    remove_limits,
    set_limits,
)
from tests.support.factories import BOUND_S, add_timers, query
from tests.support.plans import counting_rows_read
from tests.support.postgres import Server
from tests.support.roles import as_role
from tests.support.sql_client import session

IN_AN_HOUR = "now() + interval '1 hour'"
READ = counting_rows_read("timers")


@pytest.fixture(scope="module")
def crowded(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database with 60,000 timers of many tenants; tests must not change the database."""
    with postgres(18).database(_fill) as dsn:
        yield dsn


async def _fill(dsn: str) -> None:
    await add_timers(dsn, 20_000, IN_AN_HOUR, tenant_id="'big'", payload="'[1, 2]'")
    await add_timers(dsn, 20_000, IN_AN_HOUR, tenant_id="'tenant-' || i % 500")
    await add_timers(dsn, 20_000, IN_AN_HOUR)
    await query(dsn, "vacuum analyze shardclock.timers")


async def test_limits_are_set_one_by_one_listed_and_removed(each_dsn: str) -> None:
    async with session(each_dsn, "shard") as operator:
        assert await find_limits(operator, "acme") is None
        assert (await set_limits(operator, "acme", {"timers_max": 5, "rate_per_s": 0.5})).limits == Limits(
            timers_max=5, rate_per_s=0.5
        )
        await set_limits(operator, "acme", {"timers_max": None, "endpoints_max": 0})
        await set_limits(operator, "Zoe", {"waiters_max": 1})

        assert await find_limits(operator, "acme") == Limits(endpoints_max=0, rate_per_s=0.5)
        listed = await list_tenants(operator, limit=10)
        assert sorted(it.tenant_id for it in listed) == ["Zoe", "acme"]
        assert [it.limits for it in await list_tenants(operator, tenant_id="Zoe", limit=10)] == [Limits(waiters_max=1)]
        assert await remove_limits(operator, "acme")
        assert not await remove_limits(operator, "acme")
        assert len(await list_tenants(operator, limit=10)) == 1


@pytest.mark.parametrize("limits", [{"timers_max": -1}, {"rate_per_s": 0.0}, {"rate_per_s": float("nan")}], ids=str)
async def test_the_table_refuses_invalid_limits(dsn: str, limits: dict[str, float]) -> None:
    async with session(dsn, "shard") as operator:
        with pytest.raises(StatementRefused, match=r"limits_are_not_negative|rate_is_within_bounds"):
            await set_limits(operator, "acme", limits)


@pytest.mark.parametrize("tenant", ["acme", "default"])
async def test_pending_and_paused_timers_count_with_the_bytes_of_their_payloads(each_dsn: str, tenant: str) -> None:
    named = f"'{tenant}'"
    await add_timers(each_dsn, 3, IN_AN_HOUR, tenant_id=named, payload="'\"ä\"'")
    paused = await add_timers(each_dsn, 2, IN_AN_HOUR, tenant_id=named)
    await query(each_dsn, "select shardclock.pause_timers($1)", paused)
    await add_timers(each_dsn, 7, IN_AN_HOUR, tenant_id="'other'", payload="'[1]'")

    async with session(each_dsn, "gateway") as gateway:
        assert await measure_pending(gateway, tenant) == Pending(5, 12)
        assert await measure_pending(gateway, "nobody") == Pending(0, 0)


async def test_a_count_stops_at_the_limit_of_the_tenant(crowded: str) -> None:
    async with client(crowded) as gateway:
        async with gateway.transaction() as connection:
            assert await measure_pending(gateway, "big", timers_max=100) == Pending(100, 600)
            assert await connection.fetchval(READ) <= 100
        assert await measure_pending(gateway, "big", timers_max=30_000) == Pending(20_000, 120_000)


@pytest.mark.parametrize("plan", ["force_generic_plan", "force_custom_plan"])
async def test_a_count_reads_only_the_tenants_timers(crowded: str, plan: str) -> None:
    async with client(crowded) as gateway, gateway.transaction() as connection:
        await connection.execute(f"set local plan_cache_mode = {plan}")
        for tenant in ("tenant-7", "tenant-8", "nobody"):
            await measure_pending(gateway, tenant)
        assert await connection.fetchval(READ) <= 2 * 40


@pytest.mark.parametrize("tenant", ["big", "default"])
async def test_a_count_of_schedules_reads_no_plain_timer(crowded: str, tenant: str) -> None:
    async with client(crowded) as gateway, gateway.transaction() as connection:
        assert await count_schedules(gateway, tenant, most=20_000) == 0
        assert await connection.fetchval(READ) == 0


@pytest.mark.parametrize(("tenant", "has"), [("big", Pending(20_000, 120_000)), ("default", Pending(20_000, 0))])
async def test_a_larger_number_is_estimated_from_a_bounded_sample(
    crowded: str, monkeypatch: pytest.MonkeyPatch, tenant: str, has: Pending
) -> None:
    monkeypatch.setattr(module, "EXACT_MAX", 1_000)
    monkeypatch.setattr(module, "SAMPLE_TIMERS", 700)  # ten slots, the last one in part
    async with client(crowded) as gateway, gateway.transaction() as connection:
        found = await measure_pending(gateway, tenant)

        assert found.estimated
        assert found.timers == pytest.approx(has.timers, rel=0.05)
        assert found.payload_bytes == pytest.approx(has.payload_bytes, rel=0.05)
        assert await connection.fetchval(READ) <= 1_000 + 700


async def test_a_table_smaller_than_the_sample_is_counted(crowded: str) -> None:
    async with client(crowded) as gateway:
        assert await measure_pending(gateway, "default") == Pending(20_000, 0)


async def test_a_sample_reads_the_slots_by_their_index(crowded: str) -> None:
    connection = await asyncpg.connect(as_role(crowded, "gateway"), server_settings=CLIENT_PLANS)
    try:
        asked = statement("sample_pending").with_values({"tenant_id": "default", "most": SAMPLE_TIMERS})
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain {asked[0]}", *asked[1:]))
    finally:
        await connection.close()
    assert "timers_by_slot" in plan
    assert "Seq Scan on timers" not in plan


def client(dsn: str) -> Session:
    return Session(as_role(dsn, "gateway"), application="test", timeout_s=BOUND_S, plans=CLIENT_PLANS)
