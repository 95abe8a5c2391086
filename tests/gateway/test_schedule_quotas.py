"""Test that the quota of schedules applies on each route, and that plain timers do not count."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from shardclock.http import AsyncClient, OverQuota
from shardclock_server.gateway.limits import quotas
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.sql.tenant_limits.tenant_limits import NO_LIMIT
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api, serving
from tests.support.quotas import ACME, HOUR, assert_over, limit

DAILY = {"schedule": "0 8 * * *"}
REPEAT = {"schedule": "R/PT1H"}
LATER = "now() + interval '1 day'"
RULE = {
    "tenant_id": "'acme'", "schedule": "'R/PT1H'", "repetitions": "-1", "anchor": "now()", "name": "'s' || i"
}  # fmt: skip
SCHEDULES = "select count(*) from shardclock.timers where tenant_id = 'acme' and schedule is not null"


async def lines(api: Api, *fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Send lines of the tenant acme."""
    return (await api.post_lines(*fields, **ACME)).lines


async def test_the_quota_of_schedules_holds_for_each_route(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=3)
    assert (await api.post("/v1/timers", DAILY, **ACME)).status == 201
    assert (await api.put("/v1/timers/by-name/a", REPEAT, **ACME)).status == 201
    assert [it["outcome"] for it in await lines(api, DAILY, HOUR, REPEAT)] == ["created", "created", "refused"]

    assert_over(await api.post("/v1/timers", REPEAT, **ACME), "schedules", 3)
    assert_over(await api.put("/v1/timers/by-name/b", DAILY, **ACME), "schedules", 3)
    (line,) = await lines(api, DAILY)
    assert "3 pending schedules" in line["why"]
    key = (await api.post("/v1/timers", HOUR, **ACME)).json["timer_key"]
    assert_over(await api.patch(f"/v1/timers/{key}", DAILY, **ACME), "schedules", 3)
    async with AsyncClient(api.url, tenant="acme", retry_for="PT0S") as client:
        with pytest.raises(OverQuota, match="3 pending schedules"):
            await client.schedule(schedule="0 8 * * *")

    assert await value(dsn, SCHEDULES) == 3
    assert (await api.post("/v1/timers", DAILY, Shardclock_Tenant="other")).status == 201


async def test_concurrent_creates_never_exceed_the_quota_of_schedules(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=5)

    many = asyncio.create_task(lines(api, *[REPEAT] * 20))
    done = await asyncio.gather(
        *(api.post("/v1/timers", DAILY, **ACME) for _ in range(10)),
        *(api.put(f"/v1/timers/by-name/n{n}", DAILY, **ACME) for n in range(10)),
    )

    assert {it.status for it in done} <= {201, 429}
    assert {it["outcome"] for it in await many} <= {"created", "refused"}
    assert await value(dsn, SCHEDULES) == 5


async def test_a_schedule_needs_quota_to_replace_a_plain_timer_and_needs_no_quota_to_replace_a_schedule(
    dsn: str, api: Api
) -> None:
    await limit(dsn, schedules_max=2)
    for name, fields in (("a", DAILY), ("b", REPEAT), ("plain", HOUR)):
        assert (await api.put(f"/v1/timers/by-name/{name}", fields, **ACME)).status == 201

    for fields in (REPEAT, DAILY):
        assert (await api.put("/v1/timers/by-name/a", fields, **ACME)).json["outcome"] == "replaced"
    (line,) = await lines(api, {**DAILY, "name": "b", "on_conflict": "replace"})
    assert line["outcome"] == "replaced"
    stays = await api.post("/v1/timers", {**DAILY, "name": "plain", "on_conflict": "ignore"}, **ACME)
    assert stays.json["outcome"] == "unchanged"
    assert (await api.patch("/v1/timers/by-name/a", {"schedule": "0 9 * * *"}, **ACME)).status == 200
    assert_over(await api.put("/v1/timers/by-name/plain", DAILY, **ACME), "schedules", 2)
    assert_over(await api.patch("/v1/timers/by-name/plain", DAILY, **ACME), "schedules", 2)
    assert await value(dsn, SCHEDULES) == 2


async def test_plain_timers_that_become_schedules_need_quota(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=2)
    for n in range(4):
        await api.put(f"/v1/timers/by-name/n{n}", HOUR, **ACME)
    pairs = [{"name": f"m{n}", "on_conflict": "replace", **what} for n in range(4) for what in (HOUR, DAILY)]

    changed = [(await api.put(f"/v1/timers/by-name/n{n}", DAILY, **ACME)).status for n in range(4)]
    await lines(api, *pairs)

    assert changed == [200, 200, 429, 429]
    assert await value(dsn, SCHEDULES) == 2


async def test_cancelled_and_replaced_schedules_free_their_quota(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=2)
    for name in ("a", "b"):
        await api.put(f"/v1/timers/by-name/{name}", DAILY, **ACME)
    assert_over(await api.post("/v1/timers", DAILY, **ACME), "schedules", 2)

    await api.post("/v1/timers/by-name/a/cancel", {}, **ACME)
    await api.put("/v1/timers/by-name/b", HOUR, **ACME)

    with mock.patch.object(api.gateway.quotas, "_clock", return_value=api.gateway.quotas._clock() + quotas.STALE_S):
        done = [(await api.post("/v1/timers", DAILY, **ACME)).status for _ in range(3)]
    assert done == [201, 201, 429]


async def test_schedules_from_sql_and_paused_schedules_count(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=2)
    await add_timers(dsn, 2, LATER, **RULE)
    await query(dsn, "select shardclock.pause_timer(null, 's1', 'acme')")

    assert_over(await api.post("/v1/timers", DAILY, **ACME), "schedules", 2)


async def test_a_repeated_create_of_a_schedule_needs_no_quota(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=1)
    key = {"Idempotency_Key": "daily", **ACME}
    first = await api.post("/v1/timers", DAILY, **key)

    again = await api.post("/v1/timers", DAILY, **key)

    assert (again.status, again.json["timer_key"]) == (201, first.json["timer_key"])
    assert_over(await api.post("/v1/timers", DAILY, **ACME), "schedules", 1)


async def test_requests_for_plain_timers_count_no_schedules(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=1, timers_max=1_000)
    with mock.patch.object(quotas, "count_schedules", side_effect=AssertionError("they were counted")):
        assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201
        assert (await api.put("/v1/timers/by-name/a", HOUR, **ACME)).status == 201
        assert [it["outcome"] for it in await lines(api, HOUR, HOUR)] == ["created"] * 2


async def test_after_a_timeout_of_a_count_of_schedules_the_last_count_is_used(dsn: str, api: Api) -> None:
    await limit(dsn, schedules_max=1)
    with mock.patch.object(quotas, "count_schedules", side_effect=StoreUnavailable("it took too long")):
        assert (await api.post("/v1/timers", DAILY, **ACME)).status == 201
        assert_over(await api.post("/v1/timers", DAILY, **ACME), "schedules", 1)


@pytest.mark.parametrize(
    ("own", "most"), [({}, 20_000), ({"schedules_max": 2}, 2), ({"schedules_max": NO_LIMIT}, None)]
)
async def test_a_tenants_own_limits_have_the_default_number_of_schedules(
    dsn: str, api: Api, own: dict[str, int], most: int | None
) -> None:
    assert (await api.put("/v1/tenants/acme", {"timers_max": 50_000, **own})).status == 200
    await add_timers(dsn, most or 20_000, LATER, **RULE)

    said = await api.post("/v1/timers", DAILY, **ACME)

    assert said.status == (201 if most is None else 429), said
    used = (await api.get("/v1/tenants/acme")).json["used"]
    assert used["schedules"] == (most or 20_001)


async def test_a_setting_of_the_gateway_is_for_tenants_without_limits_of_their_own(dsn: str) -> None:
    async with serving(dsn, gateway_schedules_max=1) as api:
        assert [(await api.post("/v1/timers", DAILY, **ACME)).status for _ in range(2)] == [201, 429]
        assert [(await api.post("/v1/timers", DAILY)).status for _ in range(2)] == [201, 429]
