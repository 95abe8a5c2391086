"""Test waits for the ends of instances: one task of a gateway polls for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest import mock

from shardclock_server.gateway.waits import instance_ends
from shardclock_server.sql.processes.instances import cancel_instance, ended_instances
from shardclock_server.sql.session import StoreUnavailable
from tests.support.bpmn_cluster import Processes, running
from tests.support.factories import BOUND_S, value
from tests.support.gateways import Api, Said, serving
from tests.support.waiting import eventually

ASKING = "application_name = 'shardclock gateway instances'"


@asynccontextmanager
async def waiting_instance() -> AsyncIterator[tuple[Processes, Api, int]]:
    """Run a process with a user task, and a gateway beside its cluster."""
    async with running() as it, serving(it.cluster.dsn, role="") as api:
        await it.deploy('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
        yield it, api, await it.start()


async def end(it: Processes, key: int) -> None:
    await cancel_instance(it.session, key)
    await it.settle()


def wait_for(api: Api, key: int, within: str = "PT30S") -> asyncio.Task[Said]:
    return asyncio.create_task(api.get(f"/v1/instances/{key}?wait={within}"))


async def test_few_statements_find_the_ends_for_all_waiting_callers() -> None:
    async with waiting_instance() as (it, api, first):
        keys = [first, await it.start()]
        looks = mock.Mock(side_effect=ended_instances)
        with mock.patch.object(instance_ends, "ended_instances", looks):
            waits = [wait_for(api, key) for key in keys for _ in range(50)]
            await eventually(lambda: api.gateway.instance_ends.count == 100)
            await end(it, first)
            told = await asyncio.wait_for(asyncio.gather(*waits[:50]), BOUND_S)
            assert {answer.json["state"] for answer in told} == {"CANCELED"}
            assert api.gateway.instance_ends.count == 50, "the other instance runs"
            await end(it, keys[1])
            await asyncio.wait_for(asyncio.gather(*waits[50:]), BOUND_S)
            asked = [len(call.args[1]) for call in looks.call_args_list]
        assert max(asked) == 2, "for each instance once, however many wait for it"
        await eventually(lambda: api.gateway.wait_limits.ends.in_use == 0)


async def test_waits_for_instances_survive_a_lost_connection() -> None:
    async with waiting_instance() as (it, api, key):
        wait = wait_for(api, key)
        ended = f"select count(pg_terminate_backend(pid)) from pg_stat_activity where {ASKING}"
        await eventually(lambda: value(it.cluster.dsn, ended))
        await end(it, key)
        assert (await asyncio.wait_for(wait, BOUND_S)).json["state"] == "CANCELED"


async def test_while_postgres_is_away_a_wait_ends_after_its_timeout() -> None:
    async with waiting_instance() as (_, api, key):
        with mock.patch.object(instance_ends, "ended_instances", side_effect=StoreUnavailable("away")):
            assert (await wait_for(api, key, "PT0.3S")).json["state"] == "RUNNING"


async def test_a_disconnected_caller_ends_its_wait_and_polling_stops() -> None:
    async with waiting_instance() as (_, api, key):
        wait = wait_for(api, key)
        await eventually(lambda: api.gateway.instance_ends.count == 1)
        wait.cancel()
        await asyncio.wait({wait})
        await eventually(lambda: api.gateway.wait_limits.ends.in_use == 0)
        await eventually(lambda: not api.gateway.instance_ends._waits.are_watched)


async def test_a_stopping_gateway_ends_all_waits() -> None:
    async with waiting_instance() as (_, api, key):
        wait = wait_for(api, key)
        await eventually(lambda: api.gateway.instance_ends.count == 1)
        api.stop()
        assert (await asyncio.wait_for(wait, BOUND_S)).json["state"] == "RUNNING"
        assert (await asyncio.wait_for(wait_for(api, key), BOUND_S)).json["state"] == "RUNNING"
