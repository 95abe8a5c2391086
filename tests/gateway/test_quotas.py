"""Test that each quota applies only to one tenant, and that a request which creates a timer never counts the timers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import aiohttp
import pytest

from shardclock_server.gateway.limits import quotas
from shardclock_server.gateway.limits.quotas import COUNT_S, STALE_S, Quotas
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.sql.tenant_limits.tenant_limits import Limits, Pending
from tests.support.bpmn import model
from tests.support.factories import BOUND_S, add_timers, query, value
from tests.support.gateways import Api, serving
from tests.support.quotas import ACME, HOUR, assert_over, limit
from tests.support.roles import as_role
from tests.support.waiting import eventually

WITH_DEFAULTS = dict.fromkeys(("instances_max", "tasks_max", "messages_max", "definitions_max", "schedules_max"))
URL = "https://billing.example.com/hooks"


async def pending(dsn: str, tenant: str = "acme") -> int:
    """Count a tenant's pending timers."""
    return int(await value(dsn, "select count(*) from shardclock.timers where tenant_id = $1", tenant))


@contextmanager
def moved_clock(api: Api) -> Iterator[list[float]]:
    """Let a test move the clock of a gateway's quotas; the first item is the clock's lead in seconds."""
    ahead_s, clock = [0.0], api.gateway.quotas._clock

    def moved() -> float:
        return clock() + ahead_s[0]

    with mock.patch.object(api.gateway.quotas, "_clock", moved):
        yield ahead_s


async def test_a_tenant_at_its_quota_of_timers_is_refused_and_others_are_not(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=3)
    await add_timers(dsn, 1, "now() + interval '1 hour'", tenant_id="'acme'")

    done = await asyncio.gather(*(api.post("/v1/timers", HOUR, **ACME) for _ in range(20)))

    assert sorted(it.status for it in done) == [201] * 2 + [429] * 18
    assert await pending(dsn) == 3
    refused = next(it for it in done if it.status == 429)
    assert_over(refused, "timers", 3)
    assert (await api.post("/v1/timers", HOUR)).status == 201


async def test_the_next_count_finds_the_quota_that_a_cancel_frees(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=1)
    with moved_clock(api) as ahead_s:
        assert (await api.post("/v1/timers", {**HOUR, "name": "n"}, **ACME)).status == 201
        assert (await api.post("/v1/timers/by-name/n/cancel", **ACME)).status == 200
        assert (await api.post("/v1/timers", HOUR, **ACME)).status == 429  # There was no later count.

        ahead_s[0] += STALE_S - 1  # the next count is due, and the last count is not too old
        assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201


async def test_the_next_count_finds_the_timers_of_another_gateway(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=2)
    async with serving(dsn) as other:
        for gateway in (api, other, api):  # the last count does not include the other gateway's timer yet
            assert (await gateway.post("/v1/timers", HOUR, **ACME)).status == 201
        for gateway in (api, other):
            with moved_clock(gateway) as ahead_s:
                ahead_s[0] += 60 * COUNT_S
                assert_over(await gateway.post("/v1/timers", HOUR, **ACME), "timers", 2)
    assert await pending(dsn) == 3


@pytest.mark.parametrize("path", ["/v1/timers", "/v1/timers/bulk"])
async def test_timers_that_were_not_written_return_their_quota(dsn: str, api: Api, path: str) -> None:
    await limit(dsn, timers_max=2)
    named = {**HOUR, "name": "n", "on_conflict": "ignore"}

    async def schedule(line: dict[str, Any]) -> None:
        if path == "/v1/timers":
            await api.post(path, line, **ACME)
        else:
            await api.post_lines(line, **ACME)

    for _ in range(5):
        await schedule(named)
    await schedule(HOUR)
    assert await pending(dsn) == 2


async def test_a_tenants_waiting_callers_never_exceed_their_limit(dsn: str, api: Api) -> None:
    await limit(dsn, waiters_max=2)
    waiting = [asyncio.create_task(api.post("/v1/timers?wait=PT30S", HOUR, **ACME)) for _ in range(2)]
    await eventually(lambda: api.gateway.timer_ends.count == 2)
    before = await pending(dsn)

    over = await api.post("/v1/timers?wait=PT30S", HOUR, **ACME)
    assert_over(over, "waiters", 2)
    key = await value(dsn, "select min(timer_key) from shardclock.timers")
    assert_over(await api.get(f"/v1/timers/{key}/end?wait=PT30S", **ACME), "waiters", 2)
    assert await pending(dsn) == before == 2, "who may not wait has scheduled nothing"
    assert (await api.post("/v1/timers?wait=PT0.1S", HOUR)).status == 201

    api.stop()
    assert [it.status for it in await asyncio.gather(*waiting)] == [201, 201]
    assert api.gateway.quotas.count_waiting("acme") == 0


async def test_a_stream_counts_as_a_waiting_caller_of_its_tenant(dsn: str, api: Api) -> None:
    await limit(dsn, waiters_max=1)
    stream = f"{api.url}/v1/log/stream"
    async with asyncio.timeout(BOUND_S), aiohttp.ClientSession() as session:
        first = await session.get(stream, headers={"Shardclock-Tenant": "acme"})
        second = await session.get(stream, headers={"Shardclock-Tenant": "acme"})
        others = await session.get(stream)
        assert (first.status, second.status, others.status) == (200, 429, 200)
        assert_over(await api.get("/v1/log/stream", **ACME), "waiters", 1)
        assert_over(await api.post("/v1/timers?wait=PT30S", HOUR, **ACME), "waiters", 1)
        first.close()
        await eventually(lambda: api.gateway.quotas.count_waiting("acme") == 0)


async def test_endpoints_that_are_added_at_once_never_exceed_their_quota(dsn: str, api: Api) -> None:
    await limit(dsn, endpoints_max=2)

    done = await asyncio.gather(*(api.post("/v1/endpoints", {"name": f"e{n}", "url": URL}, **ACME) for n in range(8)))

    assert sorted(it.status for it in done) == [201] * 2 + [429] * 6
    assert_over(next(it for it in done if it.status == 429), "endpoints", 2)
    assert (await api.post("/v1/endpoints", {"name": "e", "url": URL})).status == 201


async def test_a_tenants_own_limits_replace_all_limits_of_the_settings(dsn: str) -> None:
    async with serving(dsn, gateway_timers_max=1, gateway_rate_per_s=1_000.0) as api:
        assert [(await api.post("/v1/timers", HOUR, **ACME)).status for _ in range(2)] == [201, 429]
        await limit(dsn, waiters_max=5)
        with moved_clock(api) as ahead_s:
            ahead_s[0] += 60 * COUNT_S
            assert [(await api.post("/v1/timers", HOUR, **ACME)).status for _ in range(2)] == [201, 201]
        assert (await api.gateway.quotas.limits_of("acme")) == Limits(waiters_max=5)


async def test_each_tenant_has_its_own_rate(dsn: str, api: Api) -> None:
    await limit(dsn, rate_per_s=1.0)

    done = [await api.post("/v1/timers", HOUR, **ACME) for _ in range(6)]

    assert [it.status for it in done[:2]] == [201, 201]
    done[-1].assert_problem("too_many", 429, "'acme' may write 1 a second here")
    assert [(await api.post("/v1/timers", HOUR)).status for _ in range(6)] == [201] * 6


async def test_an_old_limit_refuses_no_request(dsn: str, api: Api) -> None:
    await limit(dsn, rate_per_s=0.01, waiters_max=0)
    with moved_clock(api) as ahead_s:
        assert [(await api.post("/v1/timers", HOUR, **ACME)).status for _ in range(2)] == [201, 429]
        for waiters_max, later_s, status in ((1, STALE_S - 1, 201), (0, STALE_S + 1, 429), (1, STALE_S - 1, 201)):
            await limit(dsn, rate_per_s=1_000.0, waiters_max=waiters_max)
            ahead_s[0] += later_s  # the next count is due; STALE_S later the last count is too old
            assert (await api.post("/v1/timers?wait=PT0.01S", HOUR, **ACME)).status == status
        key = await value(dsn, "select min(timer_key) from shardclock.timers")
        assert (await api.get(f"/v1/timers/{key}/end?wait=PT0.01S", **ACME)).status == 204


async def test_a_busy_tenant_is_counted_once_per_interval(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=1_000)
    sent: list[str] = []
    rows = Session.rows

    async def noting(self: Session, name: str, /, **values: object) -> object:
        sent.append(name)
        return await rows(self, name, **values)

    with mock.patch.object(Session, "rows", noting), moved_clock(api) as ahead_s:
        for _ in range(2):
            done = await asyncio.gather(*(api.post("/v1/timers", HOUR, **ACME) for _ in range(30)))
            assert {it.status for it in done} == {201}
            ahead_s[0] += 60 * COUNT_S
    assert sent.count("find_limits") <= 2 + 1
    assert sent.count("count_pending") == sent.count("find_limits")


async def test_a_tenant_without_a_quota_of_timers_is_never_counted(dsn: str, api: Api) -> None:
    await limit(dsn, rate_per_s=1_000.0, endpoints_max=3)
    with mock.patch.object(quotas, "measure_pending", side_effect=AssertionError("it was counted")):
        assert [(await api.post("/v1/timers", HOUR, **ACME)).status for _ in range(3)] == [201] * 3


async def test_a_failed_count_refuses_requests_only_when_the_last_count_is_too_old(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=10)
    assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201
    failing = mock.patch.object(quotas, "find_limits", side_effect=StoreUnavailable("the look took too long"))
    with moved_clock(api) as ahead_s, failing:
        ahead_s[0] = STALE_S - 1
        assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201
        ahead_s[0] = STALE_S + 1
        (await api.post("/v1/timers", HOUR, **ACME)).assert_problem("unavailable", 503, "the look took too long")
    assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201
    assert await pending(dsn) == 3


async def test_after_a_timeout_of_a_count_the_last_count_is_used(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=3)
    failing = mock.patch.object(quotas, "measure_pending", side_effect=StoreUnavailable("the count took too long"))
    with moved_clock(api) as ahead_s:
        assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201
        with failing:
            ahead_s[0] += STALE_S + 1
            assert [(await api.post("/v1/timers", HOUR, **ACME)).status for _ in range(3)] == [201, 201, 429]
    assert await pending(dsn) == 3


async def test_the_pause_after_a_slow_count_is_long(dsn: str) -> None:
    now_s = 0.0

    async def slow(*_: object, **__: object) -> Pending:
        nonlocal now_s
        now_s += 2.0
        return Pending()

    async with (
        Pool(as_role(dsn, "gateway"), application="test", size=1, timeout_s=BOUND_S, wait_s=BOUND_S) as pool,
        Quotas(pool, Limits(), clock=lambda: now_s) as held,
    ):
        await limit(dsn, timers_max=5)
        with mock.patch.object(quotas, "measure_pending", slow):
            await held.limits_of("acme")
        (usage,) = held._usages.values()
        assert usage.retry_after_s(now_s) == 40


async def test_quotas_of_processes_are_refused_in_a_sentence_with_the_way_out(dsn: str, api: Api) -> None:
    user = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
    await api.put("/v1/tenants/acme", {"instances_max": 1, "messages_max": 0, "definitions_max": 1})
    assert (await api.deploy(user, **ACME)).status == 201
    assert (await api.post("/v1/processes/p/start", {}, **ACME)).status in (200, 201, 202)

    message = {"name": "m", "keep": "PT1H"}
    for done, quota in (
        (await api.post("/v1/processes/p/start", {}, **ACME), "instances"),
        (await api.post("/v1/messages", message, **ACME), "messages"),
        (await api.deploy(user.replace(b'id="p"', b'id="q"'), **ACME), "definitions"),
    ):
        done.assert_problem(f"quota_{quota}", 429)
        assert done.json["quota"] == quota
        assert int(done.headers["Retry-After"]) > 0
    used = (await api.get("/v1/tenants/acme")).json["used"]
    assert (used["definitions"], used["messages"]) == (1, 0)
    assert (await api.post("/v1/messages", {"name": "m"}, **ACME)).status == 200


async def test_operators_show_and_set_a_tenants_limits(dsn: str, api: Api) -> None:
    (await api.get("/v1/tenants/acme")).assert_problem("unknown_tenant", 404, "'acme' is unknown")
    wanted = {"timers_max": 5, "rate_per_s": 2.5, "tasks_max": 3}
    set_ = await api.put("/v1/tenants/acme", wanted)
    assert (set_.status, set_.json["tenant_id"]) == (200, "acme")
    assert set_.json["limits"] == {
        "payload_bytes_max": None,
        "waiters_max": None,
        "endpoints_max": None,
        **WITH_DEFAULTS,
        **wanted,
    }

    await api.post("/v1/timers", {**HOUR, "payload": [1, 2]}, **ACME)
    shown = (await api.get("/v1/tenants/acme")).json
    assert (shown["own"], shown["limits"]) == (True, set_.json["limits"])
    counted = {"timers": 1, "payload_bytes": 6, "estimated": False, "endpoints": 0, "waiters": 0}
    assert shown["used"] == {**counted, "instances": 0, "tasks": 0, "messages": 0, "definitions": 0, "schedules": 0}
    assert [it["tenant_id"] for it in (await api.get("/v1/tenants")).json["tenants"]] == ["acme"]
    assert (await api.put("/v1/tenants/acme", {"waiters_max": 1})).json["limits"]["timers_max"] is None

    assert (await api.ask("DELETE", "/v1/tenants/acme")).status == 204
    (await api.ask("DELETE", "/v1/tenants/acme")).assert_problem("not_found", 404, "'acme' has no own limits")
    shown = (await api.get("/v1/tenants/acme")).json
    assert (shown["own"], shown["limits"]["timers_max"], shown["used"]["timers"]) == (False, None, 1)
    assert await query(dsn, "select from shardclock.tenants") == []


async def test_an_invalid_limit_is_refused_and_sets_nothing(dsn: str, api: Api) -> None:
    for body in (
        {"timers_max": -1}, {"timers_max": 1.5}, {"timers_max": True}, {"rate_per_s": 0}, {"colour": 1},
        {"waiters_max": 2**63},
    ):  # fmt: skip
        (await api.put("/v1/tenants/acme", body)).assert_problem("refused", 422, next(iter(body)))
    assert await query(dsn, "select from shardclock.tenants") == []
