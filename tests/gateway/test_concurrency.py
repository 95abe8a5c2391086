"""Test that slots are freed, that their limit is never exceeded, and that a refused caller gets a time to retry."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from shardclock_server.gateway.limits.concurrency import ConcurrencyLimit
from shardclock_server.gateway.limits.unsent import UnsentBytes
from shardclock_server.gateway.requests.problems import Problem
from tests.support.factories import BOUND_S, value
from tests.support.gateways import Said, serving
from tests.support.waiting import eventually

HOUR = {"delay": "PT1H"}
MODEL = b"""<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"><process id="hello" isExecutable="true">
<startEvent id="start"/></process></definitions>"""


def assert_full(said: Said, most: int) -> None:
    """Assert that a request was refused for lack of a slot, with a time to retry."""
    said.assert_problem("unavailable", 503, f"{most} ", "already", "another gateway")
    assert int(said.headers["Retry-After"]) >= 1


def test_slots_are_freed_even_after_an_error() -> None:
    limit = ConcurrencyLimit(2, doing="sit here", way_out="stand")
    with limit.slot("ada"), limit.slot("ada"):
        assert (limit.in_use, limit.is_full) == (2, True)
        with pytest.raises(Problem, match="2 sit here already; stand"), limit.slot("bob"):
            pass
    with pytest.raises(ZeroDivisionError), limit.slot("ada"):
        raise ZeroDivisionError
    assert (limit.in_use, limit.is_full) == (0, False)


def test_answers_to_changes_leave_capacity_for_the_long_answers_of_other_tenants() -> None:
    unsent = UnsentBytes(100)
    counted = [unsent.add("ada", size) for size in (60, 1_000, 60)]

    assert unsent.bytes == 75
    unsent.require("bob", 18)
    with pytest.raises(Problem, match="are unread"):
        unsent.require("ada", 1)
    for size in counted:
        unsent.remove("ada", size)
    assert unsent.bytes == 0
    unsent.require("ada", 75)


async def test_concurrent_streams_never_exceed_their_limit(dsn: str) -> None:
    async with serving(dsn, gateway_streams_max=2) as api, aiohttp.ClientSession() as session:
        done = await asyncio.gather(*(session.get(f"{api.url}/v1/log/stream?after=0") for _ in range(8)))
        assert sorted(it.status for it in done) == [200] * 2 + [503] * 6
        assert_full(await api.get("/v1/log/stream"), 2)
        for it in done:
            it.close()
        await eventually(lambda: api.gateway.wait_limits.streams.in_use == 0)
        async with asyncio.timeout(BOUND_S), session.get(f"{api.url}/v1/log/stream?after=0") as answer:
            assert answer.status == 200


async def test_a_create_without_a_free_slot_for_its_wait_schedules_no_timer(dsn: str) -> None:
    async with serving(dsn, gateway_waits_max=1) as api:
        waiting = asyncio.create_task(api.post("/v1/timers?wait=PT30S", HOUR))
        await eventually(lambda: api.gateway.timer_ends.count == 1)
        key = await value(dsn, "select timer_key from shardclock.timers")

        assert_full(await api.post("/v1/timers?wait=PT30S", HOUR), 1)
        assert_full(await api.get(f"/v1/timers/{key}/end?wait=PT30S"), 1)
        assert (await api.get(f"/v1/timers/{key}/end")).status == 204
        assert await value(dsn, "select count(*) from shardclock.timers") == 1
        assert (await api.post(f"/v1/timers/{key}/cancel")).status == 200
        assert (await waiting).json["end"]["intent"] == "CANCELED"
        assert (await api.post("/v1/timers?wait=PT0.01S", HOUR)).status == 201


async def test_a_start_without_a_free_slot_for_its_wait_starts_no_instance(dsn: str) -> None:
    async with serving(dsn, gateway_waits_max=1) as api:
        await api.deploy(MODEL)
        waiting = asyncio.create_task(api.post("/v1/processes/hello/start?wait=PT30S", {}))
        await eventually(lambda: api.gateway.wait_limits.ends.in_use == 1)
        assert_full(await api.post("/v1/processes/hello/start?wait=PT30S", {}), 1)
        assert (await api.post("/v1/processes/hello/start", {})).status == 201
        assert await value(dsn, "select count(*) from shardclock.deliveries") == 2
        api.stop()
        assert (await waiting).status == 201
        assert api.gateway.wait_limits.ends.in_use == 0


async def test_a_tenants_waiters_for_instances_are_counted(dsn: str) -> None:
    async with serving(dsn, gateway_waiters_max=0) as api:
        await api.deploy(MODEL)
        (await api.post("/v1/processes/hello/start?wait=PT30S", {})).assert_problem("over_quota", 429, "0 callers")
        assert (await api.post("/v1/processes/hello/start", {})).status == 201
