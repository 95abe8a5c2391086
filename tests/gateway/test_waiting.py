"""The gateway answers a long poll when a record, a lease or a run exists, or at the poll's timeout."""

from __future__ import annotations

import asyncio

import pytest

from shardclock_server.jobs.states import RunOutcome
from tests.support.factories import BOUND_S, HolderClient, add_holder
from tests.support.gateways import Api, canceled, serving
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec
from tests.support.waiting import eventually


async def test_a_waiting_request_for_the_log_is_answered_when_a_record_comes(api: Api) -> None:
    await canceled(api, "old")
    end = (await api.get("/v1/log")).json["next"]
    waits = asyncio.create_task(api.get(f"/v1/log?after={end}&wait=PT30S"))
    await eventually(lambda: api.gateway.wait_limits.streams.in_use == 1)

    await canceled(api, "x", tenant="eve")
    await canceled(api, "new")

    page = (await asyncio.wait_for(waits, BOUND_S)).json
    assert [record["name"] for record in page["records"]] == ["new"]
    assert page["next"] == page["records"][0]["position"]
    assert api.gateway.wait_limits.streams.in_use == 0


async def test_a_waiting_page_reads_past_the_records_of_other_tenants(api: Api) -> None:
    await canceled(api, *(f"x{n}" for n in range(5)), tenant="eve")
    await canceled(api, "mine")

    page = (await api.get("/v1/log?limit=1&wait=PT30S")).json

    assert [record["name"] for record in page["records"]] == ["mine"]


async def test_a_waiting_request_gets_an_empty_page_at_the_end_of_its_time(api: Api) -> None:
    assert (await api.get("/v1/log?wait=PT0.2S")).json == {"records": [], "next": 0}


async def test_a_waiting_request_for_a_lease_is_answered_when_a_record_comes(api: Api) -> None:
    assert (await api.post("/v1/consumers/billing/lease?wait=PT0.2S")).status == 204
    waits = asyncio.create_task(api.post("/v1/consumers/billing/lease?wait=PT30S"))
    await eventually(lambda: api.gateway.wait_limits.streams.in_use == 1)

    await canceled(api, "new")

    lease = (await asyncio.wait_for(waits, BOUND_S)).json
    assert [record["name"] for record in lease["records"]] == ["new"]


async def test_a_long_poll_without_a_free_place_is_answered_503(dsn: str) -> None:
    async with serving(dsn, gateway_streams_max=0) as api:
        (await api.get("/v1/log?wait=PT30S")).assert_problem("unavailable", 503, "wait for a run here already")


@pytest.mark.parametrize("path", ["/v1/log?wait=PT10M", "/v1/jobs/refresh/runs/7?wait=PT10M"])
async def test_a_wait_of_more_than_five_minutes_is_refused(api: Api, path: str) -> None:
    (await api.get(path)).assert_problem("refused", 422, "PT300S")


async def test_a_stopping_gateway_ends_long_polls(dsn: str) -> None:
    async with serving(dsn) as api:
        waits = asyncio.create_task(api.get("/v1/log?wait=PT30S"))
        await eventually(lambda: api.gateway.wait_limits.streams.in_use == 1)
        api.gateway.stop_waits()
        assert (await asyncio.wait_for(waits, BOUND_S)).json["records"] == []


async def test_a_caller_can_wait_for_a_run_at_its_start_or_later(dsn: str, api: Api) -> None:
    await declare(dsn, job_spec(every_s=3600.0))
    await add_holder(dsn, 1)
    started = await api.post("/v1/jobs/refresh/run?wait=PT0.1S")
    assert (started.status, started.json["run"]) == (202, None)
    path = f"/v1/jobs/refresh/runs/{started.json['timer_key']}"
    assert (await api.get(path)).status == 204
    waits = asyncio.create_task(api.get(f"{path}?wait=PT30S"))
    await eventually(lambda: api.gateway.wait_limits.streams.in_use == 1)

    async with HolderClient(dsn, holder=1) as shard, JobWorker(dsn, 11) as worker:
        await fire(shard)
        for _ in range(2):  # besides the requested start, the job's first scheduled start was due
            await worker.end(await worker.one(), RunOutcome.SUCCEEDED)

    run = (await asyncio.wait_for(waits, BOUND_S)).json
    assert (run["job"], run["outcome"]) == ("refresh", "SUCCEEDED")
    (await api.get(path.replace("refresh", "other"))).assert_problem("not_found", 404, "is no start of job 'other'")
    (await api.get("/v1/jobs/refresh/runs/99999")).assert_problem(
        "not_found", 404, "timer 99999 is no start of job 'refresh'"
    )
